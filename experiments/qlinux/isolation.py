"""QLinux Fig. 6(a): a movie's decoder in a domain of its own, beside 0 to 32 loops in another of
the same weight.

The decoder is mplayer on the heavy clip, without picture and sound. "Playing" it shows 25 frames a
second and needs a third of the CPU, less than its half: the loops must not touch that. "Decoding"
goes as fast as it can, and gets its half whether 1 or 32 loops are beside it. The loops compute
like Dhrystone (workloads/inf.c). "One class" is the paper's vanilla Linux: no classes, so the
decoder and each loop are on a par (a domain each, of the same weight).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_least
from experiments.framework.domains import Domain, read_samples, step_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLIP = "/lab/clips/heavy.avi"
PLAYER = ("mplayer", "-noconfig", "all", "-nolirc", "-noconsolecontrols", "-nosound", "-vo", "null")
KINDS = {"playing": (), "decoding": ("-benchmark",), "flat": ()}
TITLES = {
    "playing": "playing",
    "decoding": "decoding as fast as it can",
    "flat": "playing, all in one class",
}
LOADS = dict.fromkeys(KINDS, (0, 1, 2, 4, 8, 16, 32))
MOST = 32
QUICK_LOADS = {"playing": (0, 32), "decoding": (1, 32), "flat": (32,)}
SECONDS, QUICK_SECONDS, SETTLE_S, INTERVAL_MS = 10, 5, 3, 1000
FLOOR = 0.99


def domains(kind: str, count: int) -> list[Domain]:
    decoder = Domain("soft-real-time", (*PLAYER, *KINDS[kind], CLIP), threads=1)
    if kind == "flat":
        return [decoder, *(load(f"other{k}", 1) for k in range(count))]
    return [decoder, *([load("best-effort", count)] if count else [])]


def load(path: str, count: int) -> Domain:
    return Domain(path, ("/job/inf", str(count)), threads=count, keys=("late=1",))


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    kinds = [kind for kind in KINDS if kind != "flat" or scheduler.name == "eevdf"]
    return [
        Step(
            f"{kind}-{count}",
            step_words(domains(kind, count), SETTLE_S, INTERVAL_MS, seconds * 1000 // INTERVAL_MS),
            seconds + SETTLE_S + 1,
        )
        for kind in kinds
        for count in (QUICK_LOADS if quick else LOADS)[kind]
    ]


def read(folder: Path) -> dict[str, Any]:
    """The decoder's part of the CPU; and the number of the last frame that it showed, in all."""
    sample = read_samples(folder)
    shown = re.findall(rb"V:.*?(\d+)/ *\d+", (folder / "soft-real-time.out").read_bytes())
    return {
        "cpu_percent": 100 * sample["domains"]["soft-real-time"]["cpu_s"][-1] / sample["at_s"][-1],
        "frames": int(shown[-1]) if shown else 0,
    }


def of(steps: Mapping[str, Any], kind: str) -> list[tuple[int, Any]]:
    """Number of loops and the decoder's sample, in order."""
    return sorted(
        (
            (int(name.rpartition("-")[2]), s)
            for name, s in steps.items()
            if name.startswith(f"{kind}-")
        ),
        key=lambda point: point[0],
    )


def ratio(steps: Mapping[str, Any], kind: str, few: int, many: int = MOST) -> float:
    part: float = steps[f"{kind}-{many}"]["cpu_percent"] / steps[f"{kind}-{few}"]["cpu_percent"]
    return round(part, 4)


def judge(samples: Samples) -> list[Mark]:
    steps = samples["aplomb"]
    return [
        at_least(
            "decoder's CPU with 32 loads against none, playing",
            ratio(steps, "playing", 0),
            FLOOR,
            "x",
        ),
        at_least(
            "decoder's CPU with 32 loads against one, decoding as fast as it can",
            ratio(steps, "decoding", 1),
            FLOOR,
            "x",
        ),
    ]


def table(samples: Samples) -> Table:
    rows = [
        [TITLES[kind], count, scheduler, s["cpu_percent"], s["frames"]]
        for kind in KINDS
        for scheduler, steps in samples.items()
        for count, s in of(steps, kind)
    ]
    return ["decoder", "loads", "scheduler", "decoder's CPU %", "frames shown"], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, axes = plot.grid(1, 2, 4.2, 3.0, sharey=True)
    for axis, kinds in zip(axes, (("playing", "flat"), ("decoding",))):
        for scheduler, steps in samples.items():
            for kind in kinds:
                found = of(steps, kind)
                if found:
                    axis.plot(
                        [n for n, _ in found],
                        [s["cpu_percent"] for _, s in found],
                        "s:" if kind == "flat" else "o-",
                        markersize=4,
                        color=plot.colour(scheduler),
                        label=plot.title(scheduler).split(",")[0]
                        + (", one class" if kind == "flat" else ""),
                    )
        axis.set_title(TITLES[kinds[0]])
        axis.set_xlabel("loads in the other domain")
        axis.set_ylim(0, 105)
    axes[0].set_ylabel("decoder's CPU (%)")
    figure.suptitle("A decoder and loops, in two domains of the same weight", fontsize=10)
    plot.one_legend(figure, axes, 4)
    return figure


EXPERIMENT = Experiment(
    title="A decoder isolated from loads",
    figure="QLinux, Fig. 6(a)",
    about=f"mplayer in one domain, 0 to {MOST} infinite loops in another of the same weight, "
    f"{SECONDS} s after {SETTLE_S} s; playing at the "
    "movie's rate, and decoding as fast as it can.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
    settings={
        "seconds": SECONDS,
        "settle_s": SETTLE_S,
        "clip": CLIP,
        "loads": {kind: list(loads) for kind, loads in LOADS.items()},
    },
)
