"""QLinux Fig. 7(b): two programs with the same weight send as fast as they can over one link, one
of them small packets. Both get as many bytes.

A sender may also hand over several datagrams as one packet (UDP_SEGMENT), which is divided behind
the queueing discipline: to that it is one packet of 12 kB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.links import (
    APLOMB,
    CAKE,
    FIFO,
    FQ_CODEL,
    HTB,
    PROFILES,
    Link,
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
SMALL, LARGE, SEGMENTS = 64, 1472, 8
VARIANTS = (FIFO, FQ_CODEL, CAKE, HTB, APLOMB)
LINKS = (
    Link("none", KBIT, (SMALL, 0), (LARGE, 0)),
    Link("large", KBIT, (SMALL, 0), (LARGE, 0, SEGMENTS)),
    Link("both", KBIT, (SMALL, 0, SEGMENTS), (LARGE, 0, SEGMENTS)),
)
HANDED_OVER = {
    "none": "one by one",
    "large": f"the large {SEGMENTS} at once",
    "both": f"all {SEGMENTS} at once",
}
POINTS = 1


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    links = LINKS[:2] if quick else LINKS
    return steps(links, VARIANTS, scheduler, QUICK_SECONDS if quick else SECONDS)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for link, variant, sample in measured(LINKS, VARIANTS, samples):
        if variant == APLOMB:
            how = HANDED_OVER[link.name]
            marks.append(
                between(f"small packets' part, {how}", part(sample), 50 - POINTS, 50 + POINTS, "%")
            )
            marks.append(at_least(f"both, {how}", both(sample), 0.95 * KBIT / 1000, "Mbit/s"))
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [HANDED_OVER[link.name], variant.title, part(sample), both(sample)]
        for link, variant, sample in measured(LINKS, VARIANTS, samples)
    ]
    return ["handed over", "variant", "small packets' %", "Mbit/s, both"], rows


def draw(samples: Samples) -> Figure:
    """The small packets' part, a bar for each variant."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, len(LINKS), 3.0, 2.6)
    for axis, link in zip(axes, LINKS, strict=True):
        found = [(v.title, part(sample)) for _, v, sample in measured([link], VARIANTS, samples)]
        axis.bar([title for title, _ in found], [value for _, value in found])
        axis.axhline(50, color="k", linestyle=":", linewidth=0.8)
        axis.tick_params(axis="x", rotation=45)
        axis.set_ylim(0, 100)
        axis.set_title(HANDED_OVER[link.name], fontsize=8)
    axes[0].set_ylabel("small packets' % of the bytes")
    figure.suptitle(f"Datagrams of {SMALL} bytes beside {LARGE:,} on a link of 10 Mbit a second")
    return figure


EXPERIMENT = Experiment(
    title="Shares by bytes, whatever the packets",
    figure="QLinux, Fig. 7(b)",
    about=f"A program sends datagrams of {SMALL} bytes, another one of {LARGE:,}, as fast as they "
    f"are taken, for {SECONDS} s, over a link of 10 Mbit a second; one by one, or {SEGMENTS} at "
    "once as one packet (UDP_SEGMENT). What arrives is counted, headers included.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={"kbit": KBIT, "seconds": SECONDS, "segments": SEGMENTS},
)
