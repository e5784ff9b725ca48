"""QLinux Fig. 10: four streams of 1.5 Mb/s read from a disk, beside 1 to 16 programs that read from
it without end.

A stream reads 8 KB each 42 ms (1.5 Mb/s), and has a buffer of a second: a read is late when the
buffer is empty. The streams need 95 of the 200 reads a second that the slow disk does. Under aplomb
they are in the soft real-time class with weight 3 against 1, as in the paper; the kernel's
schedulers get the same as a priority or as weights.

resctl-bench's two figures of an I/O controller follow from the same reads: isolation, how much of
their own rate the streams keep, and work conservation, how much of the disk's rate all together
keep (published for iocost: 95.2 % and 42.9 %).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.experiment import Profile
from experiments.framework.marks import at_least, at_most
from experiments.framework.readers import DISKS, Reads, Variant, of_scheduler, read, step
from experiments.framework.saves import SLOW

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STREAMS = Reads(kb=8, readers=4, every_ms=42, behind=24)
LOADS, QUICK_LOADS = (1, 2, 4, 8, 16), (16,)
CONCURRENCY, LOAD_KB = 2, 4
SECONDS, QUICK_SECONDS = 12, 8
LEAST = 0.95
LEAST_ISOLATION, LEAST_WORK = 99, 90  # percent
DISK_READS = 200  # a second
WEIGHTS = "300:100"
FIRST = ("ionice", "-c", "1", "-n", "0")
CONFIG = ("[disk]", "order = true", "soft-real-time = 75", "interactive = 1", "rest = 25")
VARIANTS = (
    Variant("none", "eevdf", "none", "none"),
    Variant("mq-deadline", "eevdf", "mq-deadline", "mq-deadline, real-time class", FIRST),
    Variant("bfq", "eevdf", "bfq", "BFQ, weights 3:1", weights=WEIGHTS),
    Variant("iocost", "eevdf", "iocost", "iocost, weights 3:1", weights=WEIGHTS),
    Variant("none", "aplomb", "none", "aplomb, none", FIRST, profile="classes"),
    Variant(
        "mq-deadline", "aplomb", "mq-deadline", "aplomb, mq-deadline", FIRST, profile="classes"
    ),
)
JUDGED = "mq-deadline"  # what the kernel has for such a disk unasked


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    return [
        step(
            f"{variant.name}-{count}",
            variant,
            scheduler,
            SLOW,
            seconds,
            STREAMS,
            Reads(LOAD_KB, count * CONCURRENCY),
        )
        for variant in of_scheduler(VARIANTS, scheduler)
        for count in (QUICK_LOADS if quick else LOADS)
    ]


def measured(samples: Samples) -> Iterator[tuple[Variant, int, Mapping[str, Any]]]:
    for variant in VARIANTS:
        for count in LOADS:
            sample = samples.get(variant.scheduler, {}).get(f"{variant.name}-{count}")
            if sample is not None:
                yield variant, count, sample


def stream_rate(sample: Mapping[str, Any]) -> float:
    """Of one stream, Mb/s."""
    bits: float = sample["program"]["reads"] * STREAMS.kb * 8192
    rate: float = bits / STREAMS.readers / sample["seconds"] / 1e6
    return round(rate, 3)


def load_rate(sample: Mapping[str, Any]) -> float:
    """Reads a second of the load."""
    rate: float = (sample["read"] - sample["program"]["reads"]) / sample["seconds"]
    return round(rate, 1)


def isolation(sample: Mapping[str, Any]) -> float:
    """Percent of the reads of the streams that they did in time."""
    due: float = STREAMS.readers * sample["seconds"] * 1000 / STREAMS.every_ms
    done: int = sample["program"]["reads"] - sample["program"]["late"]
    return round(min(100.0, 100 * done / due), 1)


def work(sample: Mapping[str, Any]) -> float:
    """Percent of the disk's reads that were done."""
    rate: float = sample["read"] / sample["seconds"]
    return round(100 * rate / DISK_READS, 1)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    found = list(measured(samples))
    for variant, count, sample in found:
        if variant.scheduler != "aplomb" or variant.name != JUDGED:
            continue
        where = f", {count} loads"
        marks.append(
            at_most(f"late reads of the streams{where}", sample["program"]["late"], 0, "reads")
        )
        stock = [
            load_rate(s)
            for v, c, s in found
            if v.scheduler == "eevdf" and c == count and not s["program"]["late"]
        ]
        if stock:
            marks.append(
                at_least(
                    f"reads a second of the load{where}, {LEAST} of the best of stock that has "
                    "the streams in time",
                    load_rate(sample),
                    round(LEAST * max(stock), 1),
                    "reads/s",
                )
            )
    ours = [s for v, _, s in found if v.scheduler == "aplomb" and v.name == JUDGED]
    if ours:
        worst = [min(map(of, ours)) for of in (isolation, work)]
        marks += [
            at_least("isolation, as resctl-bench has it, worst", worst[0], LEAST_ISOLATION, "%"),
            at_least("work conservation, likewise", worst[1], LEAST_WORK, "%"),
        ]
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            variant.title,
            count,
            stream_rate(sample),
            sample["program"]["late"],
            round(sample["program"]["longest_us"] / 1000, 1),
            load_rate(sample),
            isolation(sample),
            work(sample),
        ]
        for variant, count, sample in measured(samples)
    ]
    head = ["variant", "loads", "Mb/s a stream", "late reads", "longest ms", "load's reads/s"]
    return [*head, "isolation %", "work conserved %"], rows


def draw(samples: Samples) -> Figure:
    """The rate of a stream over the number of loads."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 1, 5.2, 3)
    for variant in VARIANTS:
        points = [(c, stream_rate(s)) for v, c, s in measured(samples) if v == variant]
        style = "-" if variant.scheduler == "aplomb" else "--"
        axes[0].plot([p[0] for p in points], [p[1] for p in points], style, label=variant.title)
    axes[0].set_xlabel("loads of two readers each")
    axes[0].set_ylabel("Mb/s of a stream")
    axes[0].set_ylim(bottom=0)
    axes[0].legend(fontsize=6)
    figure.suptitle(f"Four streams of 1.5 Mb/s on one disk ({SLOW.title})", fontsize=10)
    return figure


EXPERIMENT = Experiment(
    title="Streams from a disk beside programs that read without end",
    figure="QLinux, Fig. 10",
    about=f"Four streams read {STREAMS.kb} KB each {STREAMS.every_ms} ms from a disk of 200 reads "
    f"a second, for {SECONDS} s, beside 1 to 16 programs of {CONCURRENCY} processes that read "
    f"{LOAD_KB} KB one after the other.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    disks=DISKS,
    profiles={"classes": Profile((), only=True, config=CONFIG)},
    settings={"seconds": SECONDS, "loads": list(LOADS), "disks": list(DISKS), "aplomb": CONFIG},
)
