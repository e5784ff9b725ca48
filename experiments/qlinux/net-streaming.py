"""QLinux Fig. 8: a stream of 1.49 Mbit a second beside 1 to 32 programs that send as fast as they
can.

The paper's stream is a movie; here it is one datagram of 1,000 bytes each 5.4 ms, so that each loss
and each delay is known. Stream and senders have the same weight, so the stream's share of the link
is more than it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.links import (
    APLOMB,
    CAKE,
    FIFO,
    FQ_CODEL,
    HFSC,
    HTB,
    PROFILES,
    Link,
    lost,
    mbit,
    mean_ms,
    measured,
    read,
    steps,
)
from experiments.framework.marks import at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KBIT = 10_000
SECONDS, QUICK_SECONDS = 10, 5
VARIANTS = (FIFO, FQ_CODEL, CAKE, HTB, HFSC, APLOMB)
LINKS = tuple(Link(f"{n}", KBIT, (1000, 5400), (1000, 0), n) for n in (1, 4, 16, 32))
# 10 ms and the time of one datagram on the link
MOST_MS = 10.8


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    links = LINKS[-1:] if quick else LINKS
    return steps(links, VARIANTS, scheduler, QUICK_SECONDS if quick else SECONDS)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for link, variant, sample in measured(LINKS, VARIANTS, samples):
        if variant == APLOMB:
            stream = sample["program"]
            where = f"{link.loads} senders"
            marks.append(at_most(f"lost, {where}", stream["lost"], 0, "datagrams"))
            longest = round(stream["most_us"] / 1000, 1)
            marks.append(at_most(f"longest way, {where}", longest, MOST_MS, "ms"))
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            link.loads,
            variant.title,
            mbit(sample["program"]["bytes"], sample),
            lost(sample["program"]),
            mean_ms(sample["program"]),
            round(sample["program"]["most_us"] / 1000, 1),
        ]
        for link, variant, sample in measured(LINKS, VARIANTS, samples)
    ]
    return ["senders", "variant", "Mbit/s", "lost %", "mean ms", "longest ms"], rows


def draw(samples: Samples) -> Figure:
    """The stream's rate, and how long its datagrams are on their way, by the number of senders."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 2, 4.2, 2.8)
    found = list(measured(LINKS, VARIANTS, samples))
    for variant in VARIANTS:
        of_variant = [(link.loads, s) for link, v, s in found if v == variant]
        senders = [n for n, _ in of_variant]
        rates = [mbit(s["program"]["bytes"], s) for _, s in of_variant]
        ways = [mean_ms(s["program"]) for _, s in of_variant]
        axes[0].plot(senders, rates, "o-", label=variant.title, markersize=4)
        axes[1].plot(senders, ways, "o-", label=variant.title, markersize=4)
    axes[0].set_ylabel("Mbit a second")
    axes[0].set_ylim(bottom=0)
    axes[1].set_ylabel("mean way, ms")
    axes[1].set_yscale("log")
    for axis in axes:
        axis.set_xlabel("senders")
    figure.suptitle("A stream of 1.48 Mbit a second on a link of 10")
    plot.one_legend(figure, axes, 6)
    return figure


EXPERIMENT = Experiment(
    title="A stream beside senders",
    figure="QLinux, Fig. 8",
    about=f"A stream of 1.48 Mbit a second for {SECONDS} s, beside 1 to 32 programs that send "
    "datagrams as fast as they are taken, over a link of 10 Mbit a second.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={"kbit": KBIT, "seconds": SECONDS},
)
