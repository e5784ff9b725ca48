"""Of no paper: redline/memory-bomb on a swap device from which other programs read.

A page that the player needs from swap, and a page that must be written there before another can be
taken, wait for what the readers have at the device. A page fault is never parked (Eclipse: a
deadlock), so what can help is that the player's pages stay, and that the readers wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework import bombed_movie as bombed
from experiments.framework.beside import reports
from experiments.framework.frames import FRAMES_PER_S, STARTUP_S
from experiments.framework.marks import at_least, at_most
from experiments.framework.memory import (
    BOMB_MB,
    BOMBS,
    GUEST_MB,
    PROTECT,
    Variant,
    in_short_memory,
    measured,
    no_reclaim,
    protecting,
)

READERS, READ_KB = 4, 64
LONGEST_GAP = 120  # ms
UNORDERED = ("[disk]", "order = false")  # they are, where memory is protected
VARIANTS = (
    *bombed.STOCK,
    Variant("memory", "aplomb", "aplomb, disks not ordered", profile="film-unordered"),
    Variant("order", "aplomb", "aplomb", profile="film"),
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    flood = ["beside_readers", "swap0", str(READ_KB), str(READERS)]
    steps = bombed.steps(VARIANTS, scheduler, quick)
    return [replace(step, words=[*step.words[:2], *flood, *step.words[2:]]) for step in steps]


def read(folder: Path) -> Mapping[str, Any]:
    (readers,) = reports(folder / "readers")
    return {**bombed.read(folder), "reads": readers["reads"]}


def judge(samples: Samples) -> list[Mark]:
    movie = samples["aplomb"].get("order")
    if not movie:
        return []
    marks = [
        at_least("fewest frames in a second", movie["fewest"], 24, "frames"),
        at_most("longest gap", movie["longest_gap_ms"], LONGEST_GAP, "ms"),
        at_most(
            f"major faults of the player after its first {STARTUP_S} s",
            movie["player_major_faults"],
            0,
            "faults",
        ),
        no_reclaim(movie),
    ]
    stock = [m["longest_gap_ms"] for m in samples.get("eevdf", {}).values()]
    if stock:
        gap = movie["longest_gap_ms"]
        marks.append(at_most("longest gap, against the best of stock", gap, min(stock), "ms"))
    return marks


def table(samples: Samples) -> Table:
    columns, rows = bombed.table(VARIANTS, samples)
    reads = [movie["reads"] for _, movie in measured(VARIANTS, samples)]
    return [*columns, "reads of others"], [[*row, n] for row, n in zip(rows, reads)]


EXPERIMENT = in_short_memory(
    Experiment(
        title="A movie beside memory bombs, with a swap device that others read from",
        figure="of no paper",
        about=f"A player shows a movie of {FRAMES_PER_S} frames a second in a guest of {GUEST_MB} "
        f"MB; after {bombed.LENGTHS.before} s {BOMBS} tasks write to each page of {BOMB_MB} MB "
        f"each, again and again. {READERS} tasks read {READ_KB} KB after {READ_KB} KB from the "
        "swap device, at random, throughout.",
        steps=make,
        read=read,
        judge=judge,
        table=table,
        draw=lambda samples: bombed.draw(
            VARIANTS, samples, "mplayer beside memory bombs and readers of the swap device"
        ),
        profiles={
            "film": protecting(bombed.FILM_LINE),
            "film-unordered": replace(protecting(bombed.FILM_LINE), config=(*PROTECT, *UNORDERED)),
        },
        settings={**bombed.SETTINGS, "readers": READERS, "read_kb": READ_KB},
    )
)
