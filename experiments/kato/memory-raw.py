"""Kato Figs. 26 and 27: movies beside memory bombs, under LRU paging, memory firewalling and PSAP.

framework/films.py has the movies and the variants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, films
from experiments.framework.memory import BOMB_MB, BOMBS, GUEST_MB, SETTINGS, SWAP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KIND = films.RAW
LENGTHS = films.Phases(5, 30, 5)
QUICK_LENGTHS = films.Phases(3, 12, 3)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    return films.steps(KIND, scheduler, QUICK_LENGTHS if quick else LENGTHS)


def judge(samples: Samples) -> list[Mark]:
    return films.judge(KIND, samples)


def table(samples: Samples) -> Table:
    return films.table(KIND, samples)


def draw(samples: Samples) -> Figure:
    return films.draw(KIND, samples)


EXPERIMENT = Experiment(
    title=f"{KIND.count} {KIND.title} beside memory bombs",
    figure="Kato, Figs. 26 and 27",
    about=f"{KIND.count} instances of mplayer show a small movie of {KIND.rate} frames a second in "
    f"a guest of {GUEST_MB} MB; after {LENGTHS.before} s {BOMBS} tasks write to each page of "
    f"{BOMB_MB} MB each, again and again, for {LENGTHS.during} s.",
    steps=make,
    read=films.read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles={KIND.name: KIND.profile},
    settings={
        **SETTINGS,
        "movies": KIND.count,
        "private_pages": list(KIND.pages),
        "shared_pages": KIND.shared_pages,
        "reservation_ms": str(KIND.reservation),
        "phases_s": [LENGTHS.before, LENGTHS.during, LENGTHS.after],
    },
    memory_mb=GUEST_MB,
    swaps=(SWAP,),
)
