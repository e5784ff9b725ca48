"""Of no paper: how many packets a second a CPU sends through each queueing discipline.

Two programs send the smallest datagrams as fast as the CPU allows, to an interface that takes all
packets at once. So no packet waits, and the discipline's own work for each is what differs. fifo
and fq_codel then let packets pass by their queues, as the kernel allows them. HTB, HFSC, cake and
aplomb are told a rate that is never reached; fq has none.

In virtual time each instruction takes 2 ns. What a lock or a cache line costs on a real machine is
not in these numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.links import (
    APLOMB,
    CAKE,
    FIFO,
    FQ_CODEL,
    HFSC,
    HTB,
    PROFILES,
    Variant,
)
from experiments.framework.marks import at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECONDS, QUICK_SECONDS = 5, 2
RATE_KBIT = 10_000_000
FQ = Variant("fq", "fq")
# Of the kernel's disciplines, and the least that aplomb may have of each one's packets.
LEAST = {HTB: 0.95, HFSC: 0.95, FQ: 0.9}
DEPTHS = (1, 4, 16)
DEEP_LEAST = 0.95
STOCK = (FIFO, FQ_CODEL, CAKE, HTB, HFSC, FQ)


def group(depth: int) -> str:
    return "/".join(["program", *map(str, range(2, depth + 1))])


def words(variant: Variant, seconds: int, depth: int = 1) -> list[str]:
    rate = "-" if variant in (FIFO, FQ_CODEL, FQ) else str(RATE_KBIT)
    return ["sends", variant.kind, rate, str(seconds), group(depth)]


def name_of(depth: int) -> str:
    return f"depth-{depth}"


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    if scheduler.name == APLOMB.scheduler:
        depths = (DEPTHS[0], DEPTHS[-1]) if quick else DEPTHS
        return [Step(name_of(d), words(APLOMB, seconds, d), seconds + 4, "plain") for d in depths]
    return [Step(v.kind, words(v, seconds), seconds + 4, "plain") for v in STOCK]


def read(folder: Path) -> dict[str, Any]:
    packets, us = (folder / "sent").read_text().split()
    return {"packets": int(packets), "us": int(us)}


def rates(samples: Samples) -> dict[str, float]:
    """Packets a second, by step."""
    return {
        step: 1e6 * sample["packets"] / sample["us"]
        for steps in samples.values()
        for step, sample in steps.items()
    }


def judge(samples: Samples) -> list[Mark]:
    found = rates(samples)
    ours = found.get(name_of(1))
    if ours is None:
        return []
    marks = [
        at_least(f"packets, of {other.title}'s", round(ours / found[other.kind], 3), least, "x")
        for other, least in LEAST.items()
        if other.kind in found
    ]
    for depth in DEPTHS[1:]:
        deep = found.get(name_of(depth))
        if deep is not None:
            title = f"packets at depth {depth}, of those at depth 1"
            marks.append(at_least(title, round(deep / ours, 3), DEEP_LEAST, "x"))
    return marks


def titles() -> dict[str, str]:
    """Of the steps, in the order of the table."""
    deep = {name_of(depth): f"aplomb, depth {depth}" for depth in DEPTHS}
    return {v.kind: v.title for v in STOCK} | deep


def table(samples: Samples) -> Table:
    found = rates(samples)
    rows: list[list[object]] = [
        [title, round(found[step]), round(1e6 / found[step], 2)]
        for step, title in titles().items()
        if step in found
    ]
    return ["queueing discipline", "packets/s", "us for each"], rows


def draw(samples: Samples) -> Figure:
    """Packets a second, a bar for each."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 1, 4.6, 3.0)
    found = rates(samples)
    shown = {title: found[step] / 1000 for step, title in titles().items() if step in found}
    axes[0].barh(list(shown), list(shown.values()))
    axes[0].invert_yaxis()
    axes[0].set_xlabel("thousand packets a second")
    figure.suptitle("The smallest datagrams of two programs, one CPU in virtual time")
    return figure


EXPERIMENT = Experiment(
    title="Packets a second through each queueing discipline",
    figure="no paper",
    about=f"Two programs send datagrams of 18 bytes for {SECONDS} s, as fast as one CPU allows, to "
    "an interface that takes all packets. aplomb: the first one is in a domain of depth 1, 4 or "
    "16.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={"seconds": SECONDS, "rate_kbit": RATE_KBIT},
)
