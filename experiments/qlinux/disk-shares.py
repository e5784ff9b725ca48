"""QLinux Figs. 9(a) and 9(b): two programs read from a disk without end, and get it by weight; the
disk does as much as without weights.

Each is IO_inf of the paper with a concurrency of 6, in a domain of its own. What is compared is the
part of all reads that the first one gets, with the part that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.experiment import Profile
from experiments.framework.marks import at_least, between
from experiments.framework.readers import DISKS, Reads, Variant, of_scheduler, read, step
from experiments.framework.saves import SLOW, SSD

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CONCURRENCY, KB = 6, 4
SECONDS, QUICK_SECONDS = 12, 6
# Reservations in percent: of the first program, of the second.
RATIOS = {SLOW: ((40, 40), (50, 25), (60, 20), (64, 16)), SSD: ((60, 20), (70, 10))}
POINTS = 2
LEAST = 0.95
PROFILES = {"shared": Profile((), only=True, config=("[disk]", "order = true"))}


def variants(ratio: tuple[int, int]) -> list[Variant]:
    first, second = ratio
    weights = f"{10 * first}:{10 * second}"
    return [
        Variant("none", "eevdf", "none", "none, no shares"),
        Variant("bfq", "eevdf", "bfq", "BFQ", weights=weights),
        Variant("iocost", "eevdf", "iocost", "iocost", weights=weights),
        Variant("none", "aplomb", "none", "aplomb", shares=f"{first}%:{second}%", profile="shared"),
    ]


def name_of(device: str, ratio: tuple[int, int], variant: Variant) -> str:
    return f"{device}-{ratio[0]}-{ratio[1]}-{variant.name}"


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    readers = Reads(KB, CONCURRENCY)
    return [
        step(
            name_of(device.name, ratio, variant),
            variant,
            scheduler,
            device,
            seconds,
            readers,
            readers,
        )
        for device, ratios in RATIOS.items()
        for ratio in (ratios[2:3] if quick else ratios)
        for variant in of_scheduler(variants(ratio), scheduler)
    ]


def measured(samples: Samples) -> Iterator[tuple[str, tuple[int, int], Variant, Mapping[str, Any]]]:
    for device, ratios in RATIOS.items():
        for ratio in ratios:
            for variant in variants(ratio):
                sample = samples.get(variant.scheduler, {}).get(
                    name_of(device.name, ratio, variant)
                )
                if sample is not None:
                    yield device.title, ratio, variant, sample


def asked(ratio: tuple[int, int]) -> float:
    return 100 * ratio[0] / sum(ratio)


def part(sample: Mapping[str, Any]) -> float:
    """Of the reads while both read, the part of the first program, percent. The second one read
    alone at first: what the disk did in all is known."""
    percent: float = 100 * sample["program"]["reads"] / sample["read"]
    return round(percent, 2)


def rate(sample: Mapping[str, Any]) -> float:
    each_second: float = sample["read"] / sample["seconds"]
    return round(each_second, 1)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    found = list(measured(samples))
    for title, ratio, variant, sample in found:
        if variant.scheduler != "aplomb":
            continue
        where, wanted = f"{title}, {ratio[0]}:{ratio[1]}", asked(ratio)
        marks.append(
            between(
                f"part of the first program, {where}",
                part(sample),
                round(wanted - POINTS, 2),
                round(wanted + POINTS, 2),
                "%",
            )
        )
        stock = [
            rate(s) for t, r, v, s in found if v.scheduler == "eevdf" and (t, r) == (title, ratio)
        ]
        if stock:
            marks.append(
                at_least(
                    f"reads a second, {where}, {LEAST} of the best of stock",
                    rate(sample),
                    round(LEAST * max(stock), 1),
                    "reads/s",
                )
            )
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [title, f"{r[0]}:{r[1]}", variant.title, round(asked(r), 1), part(sample), rate(sample)]
        for title, r, variant, sample in measured(samples)
    ]
    return ["disk", "asked", "variant", "asked %", "got %", "reads/s"], rows


def draw(samples: Samples) -> Figure:
    """The part asked against the part got (9a), and the reads of the disk (9b)."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 2, 4.2, 2.8)
    by_title: dict[str, list[tuple[float, float, float]]] = {}
    for title, ratio, variant, sample in measured(samples):
        if title != SLOW.title:
            continue
        point = (asked(ratio), part(sample), rate(sample))
        by_title.setdefault(variant.title, []).append(point)
    for title, points in by_title.items():
        points.sort()
        for axis, at in zip(axes, (1, 2)):
            axis.plot([p[0] for p in points], [p[at] for p in points], "o-", label=title)
    axes[0].plot([50, 80], [50, 80], "k:", linewidth=0.8)
    axes[0].set_ylabel("% of the reads")
    axes[1].set_ylabel("reads a second, both")
    axes[1].set_ylim(bottom=0)
    for axis in axes:
        axis.set_xlabel("% asked for")
    figure.suptitle(f"Two programs on one disk ({SLOW.title}), {CONCURRENCY} readers each")
    plot.one_legend(figure, axes, 4)
    return figure


EXPERIMENT = Experiment(
    title="Shares of a disk",
    figure="QLinux, Figs. 9(a) and 9(b)",
    about=f"Two programs of {CONCURRENCY} processes each read {KB} KB at a time from random places "
    f"of one disk, past the page cache, for {SECONDS} s. Each has a domain with a reservation.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    disks=DISKS,
    profiles=PROFILES,
    settings={"concurrency": CONCURRENCY, "kb": KB, "seconds": SECONDS, "disks": list(DISKS)},
)
