"""Experiments with a movie player: clips, forms of load, and their steps, marks, tables and
pictures.

Two clips: one that needs little of the CPU and one that needs a third. Two forms: "one", where
player and load are in one session (as if started from one terminal), so that nice decides between
them on stock Linux; and "sessions", where each process of the load has a session of its own, and so
has the player, so that the kernel's autogroup gives each session the same share and nice means
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .experiment import Profile, Samples, Step, Table
from .frames import FRAMES_PER_S, STARTUP_S
from .marks import Mark, at_least, at_most
from .schedulers import Reservation, Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST = 24  # frames in every second, of 25
LONGEST_GAP = 80  # ms
FORMS = {"one": "one session", "sessions": "a session per process"}


def forms_for(scheduler: Scheduler) -> list[str]:
    """The forms in which a scheduler is measured.

    Sessions matter to the stock kernel's fair class alone, and aplomb's marks hold for both forms;
    the others take no notice of sessions, so one form says everything. Nice 0 against nice -20 is a
    question within one session.
    """
    return {
        "eevdf": ["one", "sessions"],
        "aplomb": ["one", "sessions"],
        "eevdf-nice-0": ["one"],
    }.get(scheduler.name, ["sessions"])


@dataclass(frozen=True)
class Clip:
    """A clip of the lab's image, and the reservation that playing it needs."""

    name: str
    file: str
    reservation: Reservation
    profile: str


# The light clip is played with the specification that aplomb ships for mplayer. The heavy one needs
# about a third of the timing machine's CPU; a frame's decoding time varies, and 18 ms each 40 ms,
# the frame's period, covers it.
CLIPS = {
    "light": Clip("light", "light.mpg", Reservation(5000, 30000), "shipped"),
    "heavy": Clip("heavy", "heavy.avi", Reservation(18000, 40000), "heavy"),
}
HEAVY_LINE = "/usr/bin/mplayer:iact:18:40:R:-:-"
PROFILES = {"heavy": Profile((HEAVY_LINE,))}


def clips_for(scheduler: Scheduler) -> list[str]:
    """The clips that a scheduler plays: schedulers of the scx collection and nice 0 only the
    telling one, for time."""
    return (
        ["heavy"] if scheduler.name in ("scx_bpfland", "scx_lavd", "eevdf-nice-0") else list(CLIPS)
    )


@dataclass(frozen=True)
class Load:
    """A load: its words for a form, and the profile of aplomb for a clip. name: in step names;
    title: for people."""

    name: str
    title: str
    words: Callable[[str], Sequence[str]]
    profile: Callable[[Clip], str] = lambda clip: clip.profile


@dataclass(frozen=True)
class Phases:
    """Seconds before the load, with it, and after it."""

    before: int
    during: int
    after: int


def steps(
    scheduler: Scheduler,
    clips: Sequence[str],
    forms: Sequence[str],
    loads: Sequence[Load],
    phases: Phases,
) -> list[Step]:
    """One movie for each clip, form and load, ordered so that aplomb's specifications change
    seldom."""
    made = []
    for clip in (CLIPS[name] for name in clips):
        for load in loads:
            for form in forms:
                words = [
                    "movie",
                    clip.file,
                    form,
                    STARTUP_S,
                    phases.before,
                    phases.during,
                    phases.after,
                    *scheduler.prefix(clip.reservation),
                    "--",
                    *load.words(form),
                ]
                length = STARTUP_S + phases.before + phases.during + phases.after + 9
                made.append(
                    Step(
                        f"{clip.name}-{form}-{load.name}",
                        [str(word) for word in words],
                        length,
                        load.profile(clip),
                    )
                )
    return made


def describe(step: str, titles: Mapping[str, str]) -> str:
    """A step's name in words: "light clip, one session, bomb interactive"."""
    clip, form, load = step.split("-", 2)
    title = titles.get(load, load)
    return ", ".join(part for part in (f"{clip} clip", FORMS[form], title) if part)


def judge(samples: Samples, titles: Mapping[str, str]) -> list[Mark]:
    """The marks of every movie that aplomb played."""
    marks = []
    for step, movie in samples["aplomb"].items():
        words = describe(step, titles)
        marks.append(
            at_least(f"fewest frames in a second ({words})", movie["fewest"], FEWEST, "frames")
        )
        marks.append(at_most(f"longest gap ({words})", movie["longest_gap_ms"], LONGEST_GAP, "ms"))
    return marks


def table(samples: Samples, titles: Mapping[str, str]) -> Table:
    rows = [
        [
            describe(step, titles),
            scheduler,
            movie["fewest"],
            movie["mean_under_load"],
            movie["longest_gap_ms"],
            movie.get("player_cpu_percent"),
        ]
        for step in _steps(samples)
        for scheduler, movies in samples.items()
        if (movie := movies.get(step))
    ]
    return [
        "movie",
        "scheduler",
        "fewest frames/s",
        "mean under load",
        "longest gap ms",
        "player's CPU % before",
    ], rows


def _steps(samples: Samples) -> list[str]:
    return list(dict.fromkeys(step for movies in samples.values() for step in movies))


def draw(samples: Samples, titles: Mapping[str, str], heading: str) -> Figure:
    """Frames a second over time, a panel for each clip and form, as in Redline's Figures 1 and 5.

    titles: loads by name; those of more than one load get a line style each.
    """
    from . import plot

    panels = list(dict.fromkeys(tuple(step.split("-", 2)[:2]) for step in _steps(samples)))
    figure, axes = plot.grid(-(-len(panels) // 2), min(2, len(panels)), sharex=True, sharey=True)
    dashes = dict(zip(titles, ("-", "--", ":", "-.")))
    top = 2 * FRAMES_PER_S
    for axis, (clip, form) in zip(axes, panels):
        for scheduler, movies in samples.items():
            for step, movie in movies.items():
                if tuple(step.split("-", 2)[:2]) != (clip, form):
                    continue
                load = step.split("-", 2)[2]
                label = plot.title(scheduler) + (
                    f", {titles[load]}" if titles.get(load) and len(titles) > 1 else ""
                )
                line = movie["frames_per_second"]
                axis.plot(
                    [second + 0.5 for second in range(len(line))],
                    line,
                    dashes.get(load, "-"),
                    label=label,
                    color=plot.colour(scheduler),
                    linewidth=2 if scheduler == "aplomb" else 1.2,
                    zorder=3 if scheduler == "aplomb" else 2,
                )
                axis.axvspan(
                    movie["load_at_s"],
                    movie["load_ends_at_s"],
                    color="#000000",
                    alpha=0.012,
                    linewidth=0,
                )
        axis.set_title(f"{clip} clip, {FORMS[form]}")
        axis.set_ylim(0, top)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for axis in axes:
        axis.set_xlabel("time (s)")
        axis.set_ylabel("frames per second")
    figure.suptitle(heading, fontsize=10)
    plot.one_legend(figure, axes, 3)
    return figure


def as_sample(folder: Any) -> dict[str, Any]:
    from .frames import read_movie

    return read_movie(folder).as_json()
