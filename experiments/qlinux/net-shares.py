"""QLinux Figs. 7(a) and 7(b): two programs send as fast as they can over one link, and get it by
weight, whatever the size of their packets.

Each is Net_inf of the paper. HTB, HFSC and DRR get classes of the same weights, by hand. fifo,
fq_codel and cake know no weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.links import (
    ALL,
    PROFILES,
    Link,
    mbit,
    measured,
    on_link,
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
LINKS = (
    *(
        Link(f"{first}-{second}", KBIT, (1000, 0), (1000, 0), weights=(first, second))
        for first, second in RATIOS
    ),
    Link("sizes", KBIT, (64, 0), (1472, 0)),
    Link("other-sizes", KBIT, (1472, 0), (64, 0)),
)
POINTS = 1


def title_of(link: Link) -> str:
    assert link.load is not None
    return f"{link.weights[0]}:{link.weights[1]}, {link.program[0]} and {link.load[0]} bytes"


def wanted(link: Link) -> float:
    return 100 * link.weights[0] / sum(link.weights)


def both(sample: Mapping[str, Any]) -> float:
    """What arrived, in Mbit a second."""
    return mbit(on_link(sample["program"]) + on_link(sample["load"]), sample)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    links = [link for link in LINKS if not quick or link.name in ("400-100", "sizes")]
    return steps(links, ALL, scheduler, QUICK_SECONDS if quick else SECONDS)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for link, variant, sample in measured(LINKS, ALL, samples):
        if variant.scheduler != "aplomb":
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
        for link, variant, sample in measured(LINKS, ALL, samples)
    ]
    return ["weights, packets", "variant", "asked %", "got %", "Mbit/s, both"], rows


def draw(samples: Samples) -> Figure:
    """7(a): the part asked against the part got. 7(b): parts with packets of two sizes."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 2, 4.2, 2.8)
    found = list(measured(LINKS, ALL, samples))
    for variant in ALL:
        points = [
            (wanted(link), part(sample))
            for link, v, sample in found
            if v == variant and link.program == (1000, 0)
        ]
        if points:
            axes[0].plot(*zip(*sorted(points)), "o-", label=variant.title, markersize=4)
    axes[0].plot([50, 90], [50, 90], "k:", linewidth=0.8)
    axes[0].set_xlabel("% asked for")
    axes[0].set_ylabel("% of the bytes")
    bars = [(v.title, part(s)) for link, v, s in found if link.name == "sizes"]
    axes[1].bar([title for title, _ in bars], [value for _, value in bars])
    axes[1].axhline(50, color="k", linestyle=":", linewidth=0.8)
    axes[1].tick_params(axis="x", rotation=45)
    axes[1].set_ylabel("% of the bytes, 64 beside 1,472")
    figure.suptitle("Two senders on a link of 10 Mbit a second")
    plot.one_legend(figure, axes, 7)
    return figure


EXPERIMENT = Experiment(
    title="Shares of a link",
    figure="QLinux, Figs. 7(a) and 7(b)",
    about=f"Two programs send datagrams as fast as they are taken, for {SECONDS} s, over a link of "
    "10 Mbit a second. What arrives is counted, headers included.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={"kbit": KBIT, "seconds": SECONDS},
)
