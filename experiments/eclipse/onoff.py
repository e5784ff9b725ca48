"""Eclipse Fig. 9: a movie against `onoff` loads, which use the CPU much and yet sleep often.

11 ms on, 5 ms off as in the paper, from 8 to 32 of them; and 40 of 2 ms on, 3 ms off, which sleep
even more like an interactive program. Heuristics that tell interactive programs by their sleep fall
for both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from experiments.framework import Experiment, Samples, Scheduler, Step
from experiments.framework.movies import (
    CLIPS,
    PROFILES,
    Load,
    Phases,
    as_sample,
    clips_for,
    forms_for,
    judge,
    steps,
    table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = {
    "8x11-5": (11000, 5000, 8),
    "16x11-5": (11000, 5000, 16),
    "32x11-5": (11000, 5000, 32),
    "40x2-3": (2000, 3000, 40),
}
TITLES = {
    name: f"{n} x ({on / 1000:g} ms on, {off / 1000:g} ms off)"
    for name, (on, off, n) in KINDS.items()
}
SHORT = {name: f"{n} x\n{on / 1000:g}/{off / 1000:g} ms" for name, (on, off, n) in KINDS.items()}
LENGTHS = Phases(1, 3, 1)
QUICK_LENGTHS = Phases(1, 4, 1)


def words(kind: str) -> Callable[[str], Sequence[str]]:
    return lambda form: [
        "/job/onoff",
        *map(str, KINDS[kind]),
        *(["--sessions"] if form == "sessions" else []),
    ]


LOADS = {kind: Load(kind, TITLES[kind], words(kind)) for kind in KINDS}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    loads = [LOADS["40x2-3"]] if quick else list(LOADS.values())
    if not quick and scheduler.name not in ("aplomb", "eevdf"):
        loads = [
            LOADS["16x11-5"],
            LOADS["40x2-3"],
        ]  # what tells schedulers apart; the rest left out for time
    return steps(
        scheduler,
        ["heavy"] if quick else clips_for(scheduler),
        ["sessions"] if quick else forms_for(scheduler),
        loads,
        QUICK_LENGTHS if quick else LENGTHS,
    )


def bars(samples: Samples) -> Figure:
    """Frames a second under load, a panel for each clip and form, a group of bars for each load."""
    from experiments.framework import plot
    from experiments.framework.movies import FORMS

    panels = list(
        dict.fromkeys(
            tuple(step.split("-", 2)[:2]) for movies in samples.values() for step in movies
        )
    )
    figure, axes = plot.grid(-(-len(panels) // 2), min(2, len(panels)), sharey=True)
    for axis, (clip, form) in zip(axes, panels):
        kinds = [
            kind
            for kind in KINDS
            if any(f"{clip}-{form}-{kind}" in movies for movies in samples.values())
        ]
        width = 0.8 / len(samples)
        for number, (scheduler, movies) in enumerate(samples.items()):
            shown = {
                i: movies[f"{clip}-{form}-{kind}"]
                for i, kind in enumerate(kinds)
                if f"{clip}-{form}-{kind}" in movies
            }
            if not shown:
                continue  # an empty one would spoil the legend
            places = [i + (number - (len(samples) - 1) / 2) * width for i in shown]
            axis.bar(
                places,
                [m["mean_under_load"] for m in shown.values()],
                width * 0.9,
                label=plot.title(scheduler),
                color=plot.colour(scheduler),
            )
            axis.plot(
                places,
                [m["fewest"] for m in shown.values()],
                "_",
                color="black",
                markersize=7,
                label="fewest in a second",
            )
        axis.set_xticks(range(len(kinds)), [SHORT[kind] for kind in kinds], fontsize=7)
        axis.set_title(f"{clip} clip, {FORMS[form]}")
        axis.set_ylabel("frames per second")
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(
        "mplayer against on-off loads (number x on/off; no bar: not measured)", fontsize=10
    )
    plot.one_legend(figure, axes, 3)
    return figure


EXPERIMENT = Experiment(
    title="A movie against on-off loads",
    figure="Eclipse, Fig. 9",
    about="A player shows a movie of 25 frames a second while many processes use the CPU and "
    "sleep in turn, for "
    f"{LENGTHS.during} s.",
    steps=make,
    read=as_sample,
    judge=lambda samples: judge(samples, TITLES),
    table=lambda samples: table(samples, TITLES),
    draw=bars,
    profiles=PROFILES,
    settings={"reservations": {name: str(clip.reservation) for name, clip in CLIPS.items()}},
)
