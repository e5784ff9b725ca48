"""Of no paper: how long the datagrams of a thin flow are on their way, while others fill the link.

cake and fq_codel know flows, not domains. So the thin flow is measured twice with aplomb: in a
domain of its own, and in the domain of its load, where only the flows of that domain are told
apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.links import (
    APLOMB,
    CAKE,
    FIFO,
    FQ_CODEL,
    PROFILES,
    Link,
    Variant,
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
THIN = (100, 20_000)  # 50 packets a second
LOADS: dict[str, tuple[int, tuple[int, ...] | None]] = {
    "uploads": (4, None),
    "senders": (16, (1000, 0)),
}
TITLES = {"uploads": "4 TCP uploads", "senders": "16 senders of datagrams"}
VARIANTS = (FIFO, FQ_CODEL, CAKE, APLOMB)
APART = tuple(Link(name, KBIT, THIN, load, n) for name, (n, load) in LOADS.items())
TOGETHER = tuple(
    Link(f"{name}-together", KBIT, THIN, load, n, group="load") for name, (n, load) in LOADS.items()
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    return [
        *steps(APART, VARIANTS, scheduler, seconds),
        *steps(TOGETHER, (APLOMB,), scheduler, seconds),
    ]


def all_of(samples: Samples) -> list[tuple[str, str, Variant, Mapping[str, Any]]]:
    """Each step: its load, what the table calls it, its variant and its sample."""
    found = [(link.name, v.title, v, s) for link, v, s in measured(APART, VARIANTS, samples)]
    for link, variant, sample in measured(TOGETHER, (APLOMB,), samples):
        load = link.name.removesuffix("-together")
        found.append((load, f"{variant.title}, one domain", variant, sample))
    return sorted(found, key=lambda each: list(LOADS).index(each[0]))


def longest(sample: Mapping[str, Any]) -> float:
    ms: float = sample["program"]["most_us"] / 1000
    return round(ms, 1)


def judge(samples: Samples) -> list[Mark]:
    found = all_of(samples)
    cakes = {load: sample for load, _, variant, sample in found if variant == CAKE}
    marks = []
    for load, title, variant, sample in found:
        if variant == APLOMB:
            cake = cakes.get(load)
            where = f"{title}, beside {TITLES[load]}"
            mean = mean_ms(cake["program"]) if cake else None
            most = longest(cake) if cake else None
            note = "the limit is cake's"
            marks.append(
                at_most(f"mean way, {where}", mean_ms(sample["program"]), mean, "ms", note)
            )
            marks.append(at_most(f"longest way, {where}", longest(sample), most, "ms", note))
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            TITLES[load],
            title,
            mean_ms(sample["program"]),
            longest(sample),
            lost(sample["program"]),
            mbit(sample["bytes"], sample),
        ]
        for load, title, _, sample in all_of(samples)
    ]
    return ["load", "variant", "mean ms", "longest ms", "lost %", "Mbit/s, all"], rows


def draw(samples: Samples) -> Figure:
    """The mean and the longest way, two bars for each variant."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, len(LOADS), 4.4, 2.4)
    found = all_of(samples)
    for axis, load in zip(axes, LOADS, strict=True):
        of_load = [(title, sample) for each, title, _, sample in found if each == load]
        titles = [title for title, _ in of_load]
        axis.barh(titles, [longest(s) for _, s in of_load], color="0.8", label="longest")
        axis.barh(titles, [mean_ms(s["program"]) for _, s in of_load], 0.4, label="mean")
        axis.set_xscale("log")
        axis.set_xlim(left=0.1)
        axis.set_xlabel("ms on the way")
        axis.set_title(TITLES[load])
    plot.one_legend(figure, axes, 2)
    return figure


EXPERIMENT = Experiment(
    title="A thin flow's delay",
    figure="no paper",
    about=f"50 datagrams of {THIN[0]} bytes a second for {SECONDS} s, beside 4 TCP uploads or 16 "
    "programs that send datagrams of 1,000 bytes as fast as they are taken, over a link of 10 Mbit "
    "a second.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={"kbit": KBIT, "seconds": SECONDS},
)
