"""QLinux Fig. 11: a film from a disk, sent over a link, beside programs that read from that disk
and programs that send over that link, both without end.

The server works in rounds of a second: it reads 188 KB and then sends them (workloads/stream.c).
Disk and link know both sides by weight, 2:1, as in the paper, or the server comes first. The
paper's datagrams have 8 KB, and are divided into frames by IP. Here one is a frame, since a filter
by the port, as HTB and HFSC need it, knows the first part of a datagram only.

Each round is a burst that takes the link 0.16 s alone. CoDel, which is part of fq_codel and of
aplomb's usual leaves, takes that for a queue that stays, and drops one or two of 128 datagrams. So
aplomb is judged with the leaf that QLinux has, a fifo; the usual one is shown beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, links
from experiments.framework.experiment import Profile
from experiments.framework.links import (
    APLOMB,
    APLOMB_FIFO,
    FIFO,
    FQ_CODEL,
    HFSC,
    HTB,
    Link,
    lost,
    mbit,
)
from experiments.framework.marks import at_least, at_most
from experiments.framework.readers import DISKS, READS, counted
from experiments.framework.saves import SLOW, device_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KBIT = 10_000
SECONDS, QUICK_SECONDS = 12, 8
LOADS, QUICK_LOADS = (0, 1, 4, 16), (0, 16)
CONCURRENCY, LOAD_KB = 2, 4
MBIT = 1.507  # of the film
LEAST = 0.99
MOST_MS = 1000  # a round is over before the next one
WEIGHTS = "200:100"
CONFIG = ("[disk]", "order = true", "soft-real-time = 66", "interactive = 1", "rest = 33")


@dataclass(frozen=True)
class Variant:
    """elevator: the kernel's I/O scheduler; weights: those of the cgroups there. first: the
    server's reads are of the real-time class there, aplomb's soft real-time one."""

    title: str
    elevator: str
    net: links.Variant
    weights: str = "-"
    first: bool = False

    @property
    def scheduler(self) -> str:
        return self.net.scheduler

    def step_name(self, loads: int) -> str:
        return f"{self.elevator}-{self.net.kind}-{loads}"


OURS = Variant("aplomb, fifo leaf", "mq-deadline", APLOMB_FIFO, first=True)
VARIANTS = (
    Variant("mq-deadline, fifo", "mq-deadline", FIFO),
    Variant("mq-deadline, real-time class; fq_codel", "mq-deadline", FQ_CODEL, first=True),
    Variant("BFQ and HTB, 2:1", "bfq", HTB, WEIGHTS),
    Variant("iocost and HFSC, 2:1", "iocost", HFSC, WEIGHTS),
    Variant("aplomb, its usual leaf", "mq-deadline", APLOMB, first=True),
    OURS,
)


def words(variant: Variant, loads: int, seconds: int) -> list[str]:
    kind = "first" if variant.first else "stream"
    link = Link("", KBIT, (kind, SLOW.name), (1000, 0), loads, weights=(200, 100))
    found = ["on_raw_disk", SLOW.name, variant.elevator, SLOW.cost, variant.weights, "-"]
    if loads:
        found += ["beside_readers", SLOW.name, str(LOAD_KB), str(CONCURRENCY * loads)]
    return found + link.words(variant.net, seconds)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    return [
        Step(variant.step_name(loads), words(variant, loads, seconds), seconds + 8, "classes")
        for variant in VARIANTS
        if variant.scheduler == scheduler.name
        for loads in (QUICK_LOADS if quick else LOADS)
    ]


def read(folder: Path) -> dict[str, Any]:
    """What arrived, and what the disk did in that time."""
    begin, end = device_at(folder, "load"), device_at(folder, "after")
    disk = {"read": counted(folder, READS), "read_s": round(end[0] - begin[0], 3)}
    return links.read(folder) | disk


def measured(samples: Samples) -> Iterator[tuple[Variant, int, Mapping[str, Any]]]:
    for variant in VARIANTS:
        for loads in LOADS:
            sample = samples.get(variant.scheduler, {}).get(variant.step_name(loads))
            if sample is not None:
                yield variant, loads, sample


def rate(sample: Mapping[str, Any]) -> float:
    """Of the film as it arrived, Mbit a second."""
    return mbit(sample["program"]["bytes"], sample)


def longest_ms(sample: Mapping[str, Any]) -> float:
    ms: float = sample["program"]["most_us"] / 1000
    return round(ms)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for variant, loads, sample in measured(samples):
        if variant != OURS:
            continue
        where = f"{loads} loads"
        least = round(LEAST * MBIT, 3)
        marks += [
            at_least(f"the film's rate, {where}", rate(sample), least, "Mbit/s"),
            at_most(f"lost, {where}", sample["program"]["lost"], 0, "datagrams"),
            at_most(f"end of a round, {where}", longest_ms(sample), MOST_MS, "ms"),
        ]
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            loads,
            variant.title,
            rate(sample),
            lost(sample["program"]),
            longest_ms(sample),
            round(sample["read"] / sample["read_s"], 1),
            mbit(sample["load"]["bytes"], sample),
        ]
        for variant, loads, sample in measured(samples)
    ]
    rows.sort(key=lambda row: int(str(row[0])))
    columns = ["loads", "variant", "film Mbit/s", "lost %", "longest round ms"]
    return [*columns, "disk reads/s", "load Mbit/s"], rows


def draw(samples: Samples) -> Figure:
    """The film's rate and what was lost of it, by the number of loads."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 2, 4.2, 2.8)
    for variant in VARIANTS:
        found = [(loads, s) for v, loads, s in measured(samples) if v == variant]
        loads = [n for n, _ in found]
        axes[0].plot(loads, [rate(s) for _, s in found], "o-", label=variant.title, markersize=4)
        axes[1].plot(loads, [lost(s["program"]) for _, s in found], "o-", markersize=4)
    axes[0].set_ylabel("Mbit a second")
    axes[0].set_ylim(bottom=0)
    axes[1].set_ylabel("% lost")
    for axis in axes:
        axis.set_xlabel("loads: two readers and a sender each")
    figure.suptitle(f"A film of {MBIT} Mbit a second from a disk over a link of 10")
    plot.one_legend(figure, axes, 2)
    return figure


EXPERIMENT = Experiment(
    title="A film from a disk over a link",
    figure="QLinux, Fig. 11",
    about=f"A server reads {MBIT} Mbit from a disk each second and sends it over a link of 10 Mbit "
    f"a second, for {SECONDS} s, beside 0 to 16 loads: each two processes that read {LOAD_KB} KB "
    "from that disk, one after the other, and a program that sends datagrams as fast as they are "
    f"taken. The disk does 200 reads a second ({SLOW.title}).",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    disks=DISKS,
    profiles={"classes": Profile((), only=True, config=CONFIG)},
    settings={
        "kbit": KBIT,
        "seconds": SECONDS,
        "loads": list(LOADS),
        "disks": list(DISKS),
        "aplomb": CONFIG,
    },
)
