"""Of QLinux, section 3.4: is a soft real-time stream better off without the kernel's readahead?

QLinux turned it off for such files: pages that are read early may be needed late or never, and use
up the share that other streams have. Here a stream reads from its beginning to its end, 64 KB each
40 ms, through the page cache, in the soft real-time class, beside nine programs that read 1 MB at a
time. It asks for readahead or not (POSIX_FADV_RANDOM), which only the program that has opened the
file can do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.experiment import Profile
from experiments.framework.marks import at_most
from experiments.framework.readers import DISKS, Reads, Variant, of_scheduler, read, step
from experiments.framework.saves import SLOW, SSD, Device

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITH = Reads(kb=64, readers=1, every_ms=40, how=("cached",))
WITHOUT = replace(WITH, how=("cached", "no-ahead"))
STREAMS = {"ahead": WITH, "no-ahead": WITHOUT}
TITLES = {"ahead": "with readahead", "no-ahead": "without"}
LOAD = Reads(kb=1 << 10, readers=9)
SECONDS, QUICK_SECONDS = 15, 8
CLASS = ("ionice", "-c", "1", "-n", "1")
VARIANTS = (
    Variant("mq-deadline", "eevdf", "mq-deadline", "mq-deadline, real-time class", CLASS),
    Variant("mq-deadline", "aplomb", "mq-deadline", "aplomb", CLASS, profile="ordered"),
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    return [
        step(f"{device.name}-{name}", variant, scheduler, device, seconds, stream, LOAD)
        for device in (SSD, SLOW)
        for variant in of_scheduler(VARIANTS, scheduler)
        for name, stream in STREAMS.items()
    ]


def measured(samples: Samples) -> Iterator[tuple[Device, Variant, str, Mapping[str, Any]]]:
    for device in (SSD, SLOW):
        for variant in VARIANTS:
            for name in STREAMS:
                sample = samples.get(variant.scheduler, {}).get(f"{device.name}-{name}")
                if sample is not None:
                    yield device, variant, name, sample


def judge(samples: Samples) -> list[Mark]:
    """What aplomb does, which is to leave readahead on, is to be no worse than without."""
    late = {
        (device.title, name): sample["program"]["late"]
        for device, variant, name, sample in measured(samples)
        if variant.scheduler == "aplomb"
    }
    return [
        at_most(
            f"late reads with readahead, against without, {where}",
            late[where, "ahead"],
            late[where, "no-ahead"],
            "reads",
        )
        for where, name in late
        if name == "ahead" and (where, "no-ahead") in late
    ]


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            device.title,
            variant.title,
            TITLES[name],
            sample["program"]["reads"],
            sample["program"]["late"],
            round(sample["program"]["longest_us"] / 1000, 1),
            round(sample["program"]["sum_us"] / 1000 / max(1, sample["program"]["reads"]), 2),
            round(sample["read_mb"] / sample["seconds"], 1),
        ]
        for device, variant, name, sample in measured(samples)
    ]
    head = ["disk", "variant", "stream", "reads", "late", "longest ms", "mean ms", "disk MB/s"]
    return head, rows


def draw(samples: Samples) -> Figure:
    """Reads in time in each second, a panel for each disk."""
    from experiments.framework import plot

    figure, axes = plot.grid(2, 1, 6.4, 2, sharex=True)
    for axis, device in zip(axes, (SSD, SLOW)):
        for d, variant, name, sample in measured(samples):
            if d != device:
                continue
            each = sample["program"]["each_second"]
            style = "-" if variant.scheduler == "aplomb" else "--"
            label = f"{variant.title}, {TITLES[name]}"
            axis.plot(range(len(each)), each, style, label=label)
        axis.set_title(device.title, loc="left")
        axis.set_ylabel("reads")
        axis.legend(fontsize=6, ncol=2)
    axes[-1].set_xlabel("second")
    figure.suptitle("A stream through the page cache, with and without readahead", fontsize=10)
    return figure


EXPERIMENT = Experiment(
    title="A soft real-time stream with and without readahead",
    figure="QLinux, section 3.4",
    about=f"A stream reads {WITH.kb} KB each {WITH.every_ms} ms through the page cache, for "
    f"{SECONDS} s, beside {LOAD.readers} programs that read {LOAD.kb >> 10} MB at a time past it.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    disks=DISKS,
    profiles={"ordered": Profile((), only=True, config=("[disk]", "order = true"))},
    settings={"seconds": SECONDS, "disks": list(DISKS)},
)
