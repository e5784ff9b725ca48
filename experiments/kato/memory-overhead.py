"""Kato Figs. 28 and 29: system and user time of a player for each frame, beside memory bombs, under
LRU paging, memory firewalling and PSAP.

Both times are the kernel's (stime, utime), in ticks, averaged over all frames of all players while
the bombs run. framework/films.py has the movies and the variants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, films
from experiments.framework.memory import BOMB_MB, BOMBS, GUEST_MB, SETTINGS, SWAP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (films.H264, films.RAW)
LENGTHS = films.Phases(3, 20, 2)
QUICK_LENGTHS = films.Phases(3, 10, 2)
TIMES = {"system_ms": "system time", "user_ms": "user time"}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    phases = QUICK_LENGTHS if quick else LENGTHS
    return [
        step
        for kind in KINDS
        for step in films.steps(kind, scheduler, phases, f"{kind.name}-")
        if "6000" not in step.name
    ]


def judge(samples: Samples) -> list[Mark]:
    return [mark for kind in KINDS for mark in films.overhead_marks(kind, samples, f"{kind.name}-")]


def table(samples: Samples) -> Table:
    rows = [
        [kind.title, paging.title, *(films.mean(sample, what) for what in TIMES)]
        for kind in KINDS
        for paging, sample in films.found(kind, samples, f"{kind.name}-")
    ]
    return ["movies", "paging", *(f"{title} of a frame, ms" for title in TIMES.values())], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, axes = plot.grid(1, len(TIMES), 4.2, 2.8)
    for axis, (what, title) in zip(axes, TIMES.items()):
        names, values = [], []
        for kind in KINDS:
            for paging, sample in films.found(kind, samples, f"{kind.name}-"):
                names.append(f"{kind.name}: {paging.title}")
                values.append(films.mean(sample, what) or 0.0)
        axis.barh(range(len(names)), values, color="#1f77b4")
        axis.set_yticks(range(len(names)), names, fontsize=7)
        axis.invert_yaxis()
        axis.set_title(title)
        axis.set_xlabel("ms a frame")
    return figure


EXPERIMENT = Experiment(
    title="What paging costs a player",
    figure="Kato, Figs. 28 and 29",
    about=f"{' and '.join(f'{kind.count} {kind.title}' for kind in KINDS)} in a guest of "
    f"{GUEST_MB} MB, beside {BOMBS} tasks that write to each page of {BOMB_MB} MB each for "
    f"{LENGTHS.during} s.",
    steps=make,
    read=films.read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles={kind.name: kind.profile for kind in KINDS},
    settings={
        **SETTINGS,
        "private_pages": {kind.name: kind.pages[0] for kind in KINDS},
        "phases_s": [LENGTHS.before, LENGTHS.during, LENGTHS.after],
    },
    memory_mb=GUEST_MB,
    swaps=(SWAP,),
)
