"""Of no paper: a call beside four uploads, over a modem that sends 1 Mbit a second and has a buffer
of 3 MB.

"fifo" and "fq_codel" at the machine's own speed are what distributions ship: the queue is in the
modem. The others keep a rate a little below the modem's, so that the queue is here. HTB takes a
packet of several TCP segments as one, up to 64 kB: 0.54 s at this rate, for which the call waits.
fq_codel (its tbf) and cake divide such packets, and aplomb sets gso_max_segs of the interface.
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
    HTB,
    PROFILES,
    Link,
    lost,
    mbit,
    mean_ms,
    measured,
    on_link,
    read,
    steps,
)
from experiments.framework.marks import at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KBIT, SHAPED, BUFFER = 1000, 970, 3_000_000
SECONDS, QUICK_SECONDS = 20, 8
CALL = (200, 20_000)  # 50 packets a second
UPLOADS = 4
OPEN = Link("open", None, CALL, None, UPLOADS, modem_kbit=KBIT, buffer=BUFFER)
HELD = Link("held", SHAPED, CALL, None, UPLOADS, modem_kbit=KBIT, buffer=BUFFER)
OPEN_VARIANTS, HELD_VARIANTS = (FIFO, FQ_CODEL), (FQ_CODEL, CAKE, HTB, APLOMB)
MOST_MS, MOST_LOST, LEAST_BULK = 50, 0.1, 0.95


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    return [
        *steps([OPEN], OPEN_VARIANTS, scheduler, seconds),
        *steps([HELD], HELD_VARIANTS, scheduler, seconds),
    ]


def all_of(samples: Samples) -> list[tuple[str, str, dict[str, float]]]:
    """Each variant: its title, the rate that it keeps, and its figures."""
    found = []
    for links, variants in (((OPEN,), OPEN_VARIANTS), ((HELD,), HELD_VARIANTS)):
        for link, variant, sample in measured(links, variants, samples):
            call = sample["program"]
            figures = {
                "mean": mean_ms(call),
                "most": round(call["most_us"] / 1000, 1),
                "lost": lost(call),
                "all": round(mbit(sample["bytes"], sample) * 1000 / KBIT, 3),
                "uploads": uploads(sample),
            }
            rate = f"{link.shaped_kbit} kbit" if link.shaped_kbit else "no rate"
            found.append((variant.title, rate, figures))
    return found


def uploads(sample: Mapping[str, Any]) -> float:
    """What the uploads had of the modem's rate that the call left."""
    call, rest = on_link(sample["program"]), KBIT * 125 * sample["seconds"]
    part: float = (sample["bytes"] - call) / (rest - call)
    return round(part, 3)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for title, _, figures in all_of(samples):
        if title == APLOMB.title:
            marks += [
                at_most("the call's longest way", figures["most"], MOST_MS, "ms"),
                at_most("the call's losses", figures["lost"], MOST_LOST, "%"),
                at_least("of the modem's rate", figures["all"], LEAST_BULK, ""),
                at_least("uploads, of what the call left", figures["uploads"], LEAST_BULK, ""),
            ]
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [title, rate, f["mean"], f["most"], f["lost"], f["all"], f["uploads"]]
        for title, rate, f in all_of(samples)
    ]
    head = ["variant", "keeps", "call, mean ms", "longest ms", "lost %", "of the modem's rate"]
    return [*head, "uploads, of what the call left"], rows


def draw(samples: Samples) -> Figure:
    """The call's mean way, a bar for each variant."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 1, 5.6, 2.6)
    found = all_of(samples)
    axes[0].barh([f"{title}, {rate}" for title, rate, _ in found], [f["mean"] for _, _, f in found])
    axes[0].set_xscale("log")
    axes[0].set_xlim(left=1)
    axes[0].set_xlabel("ms on the way, mean")
    figure.suptitle("A call beside four uploads, 1 Mbit a second", fontsize=10)
    return figure


EXPERIMENT = Experiment(
    title="A call beside uploads",
    figure="no paper",
    about=f"A call (50 datagrams of 200 bytes a second) beside {UPLOADS} TCP uploads for {SECONDS} "
    "s, over a modem that sends 1 Mbit a second from a buffer of 3 MB. Its way is one way: what "
    "comes back meets no queue.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={"kbit": KBIT, "kept": SHAPED, "buffer": BUFFER, "seconds": SECONDS},
)
