"""QLinux Fig. 12: a web server beside 0 to 32 programs that send as fast as they can. They want all
of the CPU and all of the link.

The paper's server plays the ClarkNet trace of 1995. That trace is not at hand, so its distribution
is: answers of 9,838 bytes on average, as published for ClarkNet (Arlitt and Williamson, SIGMETRICS
1996), lognormal, at random times. The trace has 2.4 requests a second; here it is 40, so that the
server uses a third of the link (workloads/requests.c). In the cgroups /program and /load, of the
same weight for the CPU and, where a queueing discipline knows weights, for the link. Vanilla Linux
of the paper is a fifo, with all programs in one cgroup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
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
    Link,
    Variant,
    mbit,
    measured,
    read,
    steps,
)
from experiments.framework.marks import at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KBIT = 10_000
SECONDS, QUICK_SECONDS = 12, 8
MEAN_BYTES, EACH_S = 9838, 40
ALONE, SENDERS = 0, (1, 8, 32)
LEAST = 0.95
VARIANTS = (FIFO, FQ_CODEL, CAKE, HTB, HFSC, APLOMB)
LINKS = tuple(
    Link(f"{n}", KBIT, ("requests", MEAN_BYTES, EACH_S), (1000, 0), n) for n in (ALONE, *SENDERS)
)
ONE_GROUP = tuple(replace(link, name=f"one-{link.name}", group="load") for link in LINKS)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    chosen = slice(0, None, len(SENDERS)) if quick else slice(None)
    seconds = QUICK_SECONDS if quick else SECONDS
    return [
        *steps(ONE_GROUP[chosen], (FIFO,), scheduler, seconds),
        *steps(LINKS[chosen], VARIANTS, scheduler, seconds),
    ]


def title_of(link: Link, variant: Variant) -> str:
    return f"{variant.title}, one cgroup" if link.group == "load" else variant.title


def all_of(samples: Samples) -> Iterator[tuple[Link, str, Mapping[str, Any]]]:
    """The links, the titles of the variants, and what was measured."""
    for links, variants in ((ONE_GROUP, (FIFO,)), (LINKS, VARIANTS)):
        for link, variant, sample in measured(links, variants, samples):
            yield link, title_of(link, variant), sample


def rate(sample: Mapping[str, Any]) -> float:
    """What arrived of the server's answers, Mbit a second."""
    return mbit(sample["program"]["bytes"], sample)


def answered_ms(sample: Mapping[str, Any], which: str) -> float | None:
    """How long answers took. None: there was none."""
    server = sample["program"]
    return round(server[which] / 1000, 1) if server["answers"] else None


def judge(samples: Samples) -> list[Mark]:
    ours = {link.loads: rate(s) for link, title, s in all_of(samples) if title == APLOMB.title}
    alone = ours.pop(ALONE, 0)
    return [
        at_least(
            f"the server's rate beside {senders} senders, of that alone",
            round(each / alone, 3),
            LEAST,
            "x",
        )
        for senders, each in ours.items()
        if alone
    ]


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            link.loads,
            title,
            rate(sample),
            sample["program"]["answers"],
            answered_ms(sample, "median_us"),
            answered_ms(sample, "p95_us"),
            answered_ms(sample, "most_us"),
        ]
        for link, title, sample in all_of(samples)
    ]
    rows.sort(key=lambda row: int(str(row[0])))
    columns = ["senders", "variant", "Mbit/s", "answers", "median ms", "95 of 100 ms"]
    return [*columns, "longest ms"], rows


def draw(samples: Samples) -> Figure:
    """The server's rate, and how long 95 of 100 answers take, by the number of senders."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 2, 4.2, 2.8)
    found = list(all_of(samples))
    for title in dict.fromkeys(title for _, title, _ in found):
        of_variant = [(link.loads, s) for link, t, s in found if t == title]
        senders = [n for n, _ in of_variant]
        axes[0].plot(senders, [rate(s) for _, s in of_variant], "o-", label=title, markersize=4)
        waits = [(n, answered_ms(s, "p95_us")) for n, s in of_variant]
        waits = [(n, ms) for n, ms in waits if ms is not None]
        if waits:
            axes[1].plot(*zip(*waits, strict=True), "o-", label=title, markersize=4)
    axes[0].set_ylabel("Mbit a second")
    axes[0].set_ylim(bottom=0)
    axes[1].set_ylabel("95 of 100 answers, ms")
    axes[1].set_yscale("log")
    for axis in axes:
        axis.set_xlabel("senders")
    figure.suptitle("A web server beside senders, on one CPU and a link of 10 Mbit a second")
    plot.one_legend(figure, axes, 4)
    return figure


EXPERIMENT = Experiment(
    title="A web server beside senders",
    figure="QLinux, Fig. 12",
    about=f"A web server of {EACH_S} answers a second, of {MEAN_BYTES} bytes on average "
    f"(synthetic, with the mean of the ClarkNet trace), for {SECONDS} s, alone and beside 1 to 32 "
    "programs that send datagrams as fast as they are taken, over a link of 10 Mbit a second.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={"kbit": KBIT, "seconds": SECONDS, "mean_bytes": MEAN_BYTES, "each_s": EACH_S},
)
