"""QLinux Figs. 7(a) and 13(b): two programs send as fast as they can over one link, and get it by
weight, however deep the domain of one is.

Each is Net_inf of the paper. HTB, HFSC and DRR get classes of the same weights, by hand. fifo,
fq_codel and cake know no weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.links import (
    ALL,
    APLOMB,
    PROFILES,
    Link,
    Variant,
    both,
    measured,
    part,
    read,
    steps,
)
from experiments.framework.marks import at_least, between

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KBIT = 10_000
SECONDS, QUICK_SECONDS = 10, 5
RATIOS = ((100, 100), (200, 100), (400, 100), (900, 100))
DEPTHS = (4, 16)
LINKS = tuple(
    Link(f"{first}-{second}", KBIT, (1000, 0), (1000, 0), weights=(first, second))
    for first, second in RATIOS
)
# Only aplomb knows domains: the classes of the others are as deep as a hand makes them.
DEEP = tuple(
    Link(
        f"depth-{depth}",
        KBIT,
        (1000, 0),
        (1000, 0),
        weights=(400, 100),
        group="/".join(["program", *map(str, range(2, depth + 1))]),
    )
    for depth in DEPTHS
)
POINTS = 1


def title_of(link: Link) -> str:
    depth = link.group.count("/") + 1
    where = f", at depth {depth}" if depth > 1 else ""
    return f"{link.weights[0]}:{link.weights[1]}{where}"


def wanted(link: Link) -> float:
    return 100 * link.weights[0] / sum(link.weights)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    links = [link for link in LINKS if not quick or link.name == "400-100"]
    deep = DEEP[-1:] if quick else DEEP
    return [
        *steps(links, ALL, scheduler, seconds),
        *steps(deep, (APLOMB,), scheduler, seconds),
    ]


def all_of(samples: Samples) -> list[tuple[Link, Variant, Mapping[str, Any]]]:
    return [*measured(LINKS, ALL, samples), *measured(DEEP, (APLOMB,), samples)]


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for link, variant, sample in all_of(samples):
        if variant != APLOMB:
            continue
        right = wanted(link)
        marks.append(
            between(
                f"the first one's part, {title_of(link)}",
                part(sample),
                round(right - POINTS, 2),
                round(right + POINTS, 2),
                "%",
            )
        )
        rate = both(sample)
        marks.append(at_least(f"both, {title_of(link)}", rate, 0.95 * KBIT / 1000, "Mbit/s"))
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            title_of(link),
            variant.title,
            round(wanted(link), 1),
            part(sample),
            both(sample),
        ]
        for link, variant, sample in all_of(samples)
    ]
    return ["weights", "variant", "asked %", "got %", "Mbit/s, both"], rows


def draw(samples: Samples) -> Figure:
    """7(a): the part asked against the part got."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 1, 4.6, 3.2)
    for variant in ALL:
        points = [
            (wanted(link), part(sample))
            for link, v, sample in measured(LINKS, ALL, samples)
            if v == variant
        ]
        if points:
            axes[0].plot(*zip(*sorted(points)), "o-", label=variant.title, markersize=4)
    axes[0].plot([50, 90], [50, 90], "k:", linewidth=0.8)
    axes[0].set_xlabel("% asked for")
    axes[0].set_ylabel("% of the bytes")
    figure.suptitle("Two senders on a link of 10 Mbit a second")
    plot.one_legend(figure, axes)
    return figure


EXPERIMENT = Experiment(
    title="Shares of a link",
    figure="QLinux, Figs. 7(a) and 13(b)",
    about=f"Two programs send datagrams of 1,000 bytes as fast as they are taken, for {SECONDS} s, "
    "over a link of 10 Mbit a second. What arrives is counted, headers included. The first one is "
    "in a domain of depth 1, 4 or 16.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={"kbit": KBIT, "seconds": SECONDS},
)
