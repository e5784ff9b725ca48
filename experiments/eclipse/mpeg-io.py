"""Eclipse Fig. 10: an MPEG player with ten threads that read ahead, beside ten programs that read
from random places, over the reservation of the disk that the player's domain has.

A reader of the player reads 8 KB each 125 ms: 80 reads a second, of the 200 that the disk does.
That is 40 %; the mark is set 5 points above. It has a buffer of half a second, Eclipse's cycle. The
load reads 1 MB at a time, which takes the disk 26 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.experiment import Profile
from experiments.framework.marks import at_least, at_most
from experiments.framework.readers import (
    DISKS,
    SETTLE_S,
    Reads,
    Variant,
    of_scheduler,
    read,
    step,
)
from experiments.framework.saves import SLOW

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PLAYER = Reads(kb=8, readers=10, every_ms=125, behind=4)
LOAD = Reads(kb=1024, readers=10)
NEEDED = 45  # percent: 80 of 200 reads, and 5 points
RESERVATIONS, QUICK_RESERVATIONS = (0, 10, 20, 30, 40, NEEDED, 60), (0, NEEDED)
SECONDS, QUICK_SECONDS = 12, 8
LEAST = 0.95
CONFIG = ("[disk]", "order = true", 'round = "500ms"')
STOCK = (
    Variant("none", "eevdf", "none", "none"),
    Variant("mq-deadline", "eevdf", "mq-deadline", "mq-deadline, real-time", ("ionice", "-c", "1")),
    Variant("bfq", "eevdf", "bfq", "BFQ, weights 1000:10"),
    Variant("iocost", "eevdf", "iocost", "iocost, weights 10000:1"),
)


def reserved(percent: int) -> Variant:
    shares = f"{percent}%:none" if percent else "none:none"
    title = f"aplomb, io={percent}%"
    return Variant(f"io-{percent}", "aplomb", "none", title, shares=shares, profile="shared")


ALL = (*STOCK, *map(reserved, RESERVATIONS))


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    some = {reserved(percent).name for percent in (QUICK_RESERVATIONS if quick else RESERVATIONS)}
    return [
        step(variant.name, variant, scheduler, SLOW, seconds, PLAYER, LOAD)
        for variant in of_scheduler(ALL, scheduler)
        if variant in STOCK or variant.name in some
    ]


def measured(samples: Samples) -> Iterator[tuple[Variant, Mapping[str, Any]]]:
    for variant in ALL:
        sample = samples.get(variant.scheduler, {}).get(variant.name)
        if sample is not None:
            yield variant, sample


def load_rate(sample: Mapping[str, Any]) -> float:
    """MB a second of the load: it is measured by its own count, over the time that it ran."""
    whole: float = sample["load"]["reads"] * LOAD.kb / 1024
    rate: float = whole / (sample["seconds"] + SETTLE_S)
    return round(rate, 2)


def judge(samples: Samples) -> list[Mark]:
    sample = samples["aplomb"].get(reserved(NEEDED).name)
    if sample is None:
        return []
    marks = [
        at_most(f"late reads of the player at io={NEEDED}%", sample["program"]["late"], 0, "reads")
    ]
    stock = [load_rate(s) for v, s in measured(samples) if v in STOCK and not s["program"]["late"]]
    if stock:
        marks.append(
            at_least(
                f"rate of the load, {LEAST} of the best of stock that has the player in time",
                load_rate(sample),
                round(LEAST * max(stock), 2),
                "MB/s",
            )
        )
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            variant.title,
            sample["program"]["reads"],
            sample["program"]["late"],
            round(sample["program"]["longest_us"] / 1000, 1),
            load_rate(sample),
        ]
        for variant, sample in measured(samples)
    ]
    return ["variant", "player's reads", "late", "longest ms", "load MB/s"], rows


def draw(samples: Samples) -> Figure:
    """Late reads over the reservation."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 1, 5.2, 3)
    points = [
        (percent, samples["aplomb"][reserved(percent).name]["program"]["late"])
        for percent in RESERVATIONS
        if reserved(percent).name in samples.get("aplomb", {})
    ]
    axes[0].plot([p[0] for p in points], [p[1] for p in points], "o-", label="aplomb")
    for variant, sample in measured(samples):
        if variant in STOCK:
            axes[0].axhline(sample["program"]["late"], linestyle="--", label=variant.title)
    axes[0].set_xlabel("% of the disk reserved")
    axes[0].set_ylabel("late reads")
    axes[0].legend(fontsize=6)
    figure.suptitle("A player beside ten programs that read, on one disk", fontsize=10)
    return figure


EXPERIMENT = Experiment(
    title="A player's reservation of a disk",
    figure="Eclipse, Fig. 10",
    about=f"Ten readers of a player read {PLAYER.kb} KB each {PLAYER.every_ms} ms from a disk of "
    f"200 reads and 40 MB a second, for {SECONDS} s, beside ten that read {LOAD.kb} KB one after "
    "the other.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    disks=DISKS,
    profiles={"shared": Profile((), only=True, config=CONFIG)},
    settings={"seconds": SECONDS, "disks": list(DISKS), "aplomb": CONFIG},
)
