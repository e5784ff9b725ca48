"""Kato Figs. 6 and 7: what each frame of a movie costs its player; and the traces that the
simulator plays.

mplayer plays one movie alone on the `timing` machine, in step with the clock, and
`workloads/record.c` takes the exact CPU time between two frames. The movies are made in the guest,
so that anybody can record them again:

- h264: 24 frames a second in the proportions of the paper's 1920x800, scaled to the machine, so
  that most frames need less than 25 ms and the worst some 45 ms of the period of 41.7 ms. Twenty
  scenes with cuts between them, I, P and B frames; x264 at constant quality, so busy scenes have
  many bits and calm ones few, within a decoder's buffer.
- mpeg4: the lab's heavy clip, one endless scene at 25 frames a second.
- raw: 720x480 uncompressed at 29.97 frames a second. The player scales it to a small window and
  converts it to RGB, as one does whose display can do neither. Virtual time knows no caches, so its
  frames are all alike.

`python -m experiments traces` writes the traces anew from the result of this experiment.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import (
    Experiment,
    Mark,
    Samples,
    Scheduler,
    Step,
    Table,
    at_least,
    at_most,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = "960x400"
STARTUP_S = 2  # opening the file and filling the decoder's queue are not a frame's cost
FRAMES = 1440
QUICK_FRAMES = 96
PLAYER = ["mplayer", "-noconfig", "all", "-nolirc", "-noconsolecontrols", "-nosound", "-vo", "null"]

# The sources of ffmpeg that the scenes are made of.
SOURCES = {
    "patterns": f"testsrc2=s={SIZE}:r=24",
    "turning": f"testsrc2=s={SIZE}:r=24,rotate=t*0.4",
    "zoom": f"mandelbrot=s=480x200:r=24:maxiter=200,scale={SIZE}",
    "crowd": (
        "life=s=240x100:r=24:mold=10:ratio=0.3:seed=SEED:death_color=#203040:life_color=#f0d080,"
        f"scale={SIZE}:flags=neighbor"
    ),
    "clouds": f"perlin=s=480x200:r=24:octaves=3:seed=SEED,scale={SIZE}",
    "calm": f"gradients=s={SIZE}:r=24:speed=0.02:seed=SEED",
    "rain": f"cellauto=s=240x100:r=24:scroll=1:seed=SEED,scale={SIZE}:flags=bilinear",
}
# Scenes and their seconds: 66 in all.
SCENES = [
    ("clouds", 3),
    ("patterns", 5),
    ("crowd", 2.5),
    ("calm", 2),
    ("turning", 4),
    ("zoom", 4),
    ("rain", 2),
    ("crowd", 4),
    ("patterns", 3),
    ("turning", 5),
    ("clouds", 2),
    ("crowd", 3),
    ("zoom", 3),
    ("patterns", 2),
    ("rain", 3),
    ("turning", 3),
    ("crowd", 2),
    ("calm", 1.5),
    ("turning", 6),
    ("crowd", 6),
]


def film(seconds: float) -> str:
    """The ffmpeg graph of the scenes, one after another, up to so many seconds."""
    chains, names = [], []
    for number, (kind, length) in enumerate(SCENES):
        chains.append(
            f"{SOURCES[kind].replace('SEED', str(number + 1))},"
            f"trim=duration={length},setpts=PTS-STARTPTS,"
            f"setsar=1,format=yuv420p[s{number}]"
        )
        names.append(f"[s{number}]")
        seconds -= length
        if seconds <= 0:
            break
    return ";".join(chains) + ";" + "".join(names) + f"concat=n={len(names)}[film]"


@dataclass(frozen=True)
class Recording:
    """A movie: how it is made and played; rate in frames a second."""

    title: str
    rate: float
    make: Callable[[int], str]  # the shell command, for a number of seconds
    player: tuple[str, ...]
    frames: int = FRAMES

    @property
    def about(self) -> list[str]:
        """For the header of the trace."""
        made = self.make(round(self.frames / self.rate) + STARTUP_S + 2)
        return [
            f"Movie: {self.title}.",
            f"Made by: {'the lab (lab/guest/make-clips)' if made == 'true' else made}",
            f"Player: {' '.join([*PLAYER, *self.player])}",
        ]


ENCODE = "-c:v libx264 -preset superfast -bf 3 -g 96 -crf 15 -maxrate 7000k -bufsize 270k"
RECORDINGS = {
    "h264": Recording(
        f"H.264, {SIZE}, 24 frames/s",
        24,
        lambda seconds: (
            f"ffmpeg -v error -nostdin -y -filter_complex '{film(seconds)}' -map '[film]' -t "
            f"{seconds} {ENCODE} movie.mkv"
        ),
        ("movie.mkv",),
    ),
    "mpeg4": Recording(
        "MPEG-4, 1280x720, 25 frames/s", 25, lambda seconds: "true", ("/lab/clips/heavy.avi",)
    ),
    "raw": Recording(
        "uncompressed, 720x480, 29.97 frames/s",
        30000 / 1001,
        lambda seconds: (
            "ffmpeg -v error -nostdin -y -f lavfi -i testsrc2=s=720x480:r=30000/1001 "
            f"-t {seconds} -pix_fmt yuv420p -c:v rawvideo movie.avi"
        ),
        ("-sws", "0", "-vf", "scale=352:264,format=bgr32", "movie.avi"),
        1100,
    ),
}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    steps = []
    for name, r in RECORDINGS.items():
        seconds = round((QUICK_FRAMES if quick else r.frames) / r.rate) + STARTUP_S + 2
        words = ["recorded", r.make(seconds), *PLAYER, "-endpos", str(seconds), *r.player]
        steps.append(Step(name, words, seconds * (5 if name == "h264" else 2)))
    return steps


def read(folder: Path) -> dict[str, Any]:
    """CPU time of each frame in ns, from STARTUP_S on."""
    r = RECORDINGS[folder.name]
    used = [int(line.split()[1]) for line in (folder / "frames").read_text().splitlines()]
    costs = [after - before for before, after in itertools.pairwise(used)]
    first = round(STARTUP_S * r.rate)
    # What the player counts as frames at the very end comes from the decoder's queue, and cost
    # nothing by then.
    costs = costs[first : first + min(r.frames, len(costs) - first - round(r.rate))]
    ordered = sorted(costs)
    return {
        "frames": len(costs),
        "mean_ms": sum(costs) / len(costs) / 1e6,
        "least_ms": ordered[0] / 1e6,
        "p50_ms": ordered[len(costs) // 2] / 1e6,
        "p90_ms": ordered[len(costs) * 9 // 10] / 1e6,
        "p99_ms": ordered[len(costs) * 99 // 100] / 1e6,
        "most_ms": ordered[-1] / 1e6,
        "cpu_ns": costs,
    }


def judge(samples: Samples) -> list[Mark]:
    film_, raw = samples["eevdf"]["h264"], samples["eevdf"]["raw"]
    return [
        at_least("frames recorded of the H.264 movie", film_["frames"], 1000, "frames"),
        at_most(
            "mean of the H.264 movie, below the paper's reservation", film_["mean_ms"], 25, "ms"
        ),
        at_least(
            "worst frame of the H.264 movie, above its period", film_["most_ms"], 1000 / 24, "ms"
        ),
        at_most(
            "worst frame of the uncompressed movie, within the paper's reservation",
            raw["most_ms"],
            9,
            "ms",
        ),
    ]


def table(samples: Samples) -> Table:
    keys = ["frames", "mean_ms", "least_ms", "p50_ms", "p90_ms", "p99_ms", "most_ms"]
    return (
        ["movie", *[key.replace("_", " ") for key in keys]],
        [
            [RECORDINGS[name].title, *[r[key] for key in keys]]
            for name, r in samples["eevdf"].items()
        ],
    )


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, axes = plot.grid(3, 1, 7.5, 2.0)
    for axis, (name, r) in zip(axes, samples["eevdf"].items()):
        rate = RECORDINGS[name].rate
        axis.plot(
            [i / rate for i in range(r["frames"])],
            [ns / 1e6 for ns in r["cpu_ns"]],
            linewidth=0.6,
            color="#1f77b4",
        )
        axis.axhline(1000 / rate, color="black", linewidth=0.6, linestyle=":")
        axis.set_title(RECORDINGS[name].title)
        axis.set_ylabel("ms a frame")
        axis.set_ylim(bottom=0)
    axes[-1].set_xlabel("time in the movie (s)")
    figure.suptitle(
        "CPU time of the player for each frame (dotted: the frame's period)", fontsize=10
    )
    return figure


EXPERIMENT = Experiment(
    title="What a frame costs",
    figure="Kato, Figs. 6 and 7",
    about="mplayer plays a movie alone; between two frames its exact CPU time is taken.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf",),
    quick_schedulers=("eevdf",),
    subject="eevdf",
    settings={
        "startup_left_out_s": STARTUP_S,
        "movies": {name: r.about for name, r in RECORDINGS.items()},
    },
)
