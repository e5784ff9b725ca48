"""Redline Fig. 10: a film is read from a disk from which nine programs read 20 MB at a time, past
the page cache.

The film is read as its frames are due: 64 KB each 40 ms (13 Mb/s), by direct I/O, one frame ahead.
mplayer reads further ahead, through the page cache. So each read is on the way of a frame here, and
a frame is late if its read is not done within its 40 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.experiment import Profile
from experiments.framework.guest import WORKLOADS
from experiments.framework.marks import at_least, at_most
from experiments.framework.readers import DISKS, Reads, Variant, of_scheduler, read, step
from experiments.framework.saves import SLOW, SSD, Device
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILM = Reads(kb=64, readers=1, every_ms=40)
LOAD = Reads(kb=20 << 10, readers=9)
FRAMES = 25
LEAST_FRAMES, MOST_GAP_MS = 24, 120
SECONDS, QUICK_SECONDS = 20, 10
LEAST = 0.95
RESERVATION = Reservation(5000, 40000)
# The name of the program has to be its own: the load is the same one.
LINE = f"/job/film:iact:{RESERVATION}:IR:-:-"
FIRST = ("ionice", "-c", "1")
VARIANTS = (
    Variant("none", "eevdf", "none", "none"),
    Variant("mq-deadline", "eevdf", "mq-deadline", "mq-deadline, real-time class", FIRST),
    Variant("bfq", "eevdf", "bfq", "BFQ, weights 1000:10"),
    Variant("iocost", "eevdf", "iocost", "iocost, weights 10000:1"),
    Variant("none", "aplomb", "none", "aplomb, none", profile="ordered"),
    Variant("mq-deadline", "aplomb", "mq-deadline", "aplomb, mq-deadline", profile="ordered"),
)
JUDGED = {SSD: "none", SLOW: "mq-deadline"}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    return [
        step(
            f"{device.name}-{variant.name}",
            variant,
            scheduler,
            device,
            seconds,
            FILM,
            LOAD,
            RESERVATION,
            own_name="film",
        )
        for device in (SSD, SLOW)
        for variant in of_scheduler(VARIANTS, scheduler)
    ]


def measured(samples: Samples) -> Iterator[tuple[Device, Variant, Mapping[str, Any]]]:
    for device in (SSD, SLOW):
        for variant in VARIANTS:
            sample = samples.get(variant.scheduler, {}).get(f"{device.name}-{variant.name}")
            if sample is not None:
                yield device, variant, sample


def load_rate(sample: Mapping[str, Any]) -> float:
    """MB a second that the disk read for the load."""
    film_mb: float = sample["program"]["reads"] * FILM.kb / 1024
    rate: float = (sample["read_mb"] - film_mb) / sample["seconds"]
    return round(rate, 2)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    found = list(measured(samples))
    for device, variant, sample in found:
        if variant.scheduler != "aplomb" or variant.name != JUDGED[device]:
            continue
        where = f", {device.title}"
        film = sample["program"]
        marks += [
            at_least(
                f"frames in the worst second{where}", film["worst_second"], LEAST_FRAMES, "frames"
            ),
            at_most(
                f"longest gap between frames{where}",
                round(film["longest_gap_us"] / 1000, 1),
                MOST_GAP_MS,
                "ms",
            ),
        ]
        stock = [load_rate(s) for d, v, s in found if v.scheduler == "eevdf" and d == device]
        if stock:
            marks.append(
                at_least(
                    f"rate of the load{where}, {LEAST} of the best of stock",
                    load_rate(sample),
                    round(LEAST * max(stock), 2),
                    "MB/s",
                )
            )
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            device.title,
            variant.title,
            sample["program"]["reads"],
            sample["program"]["worst_second"],
            round(sample["program"]["longest_gap_us"] / 1000, 1),
            round(sample["program"]["longest_us"] / 1000, 1),
            load_rate(sample),
        ]
        for device, variant, sample in measured(samples)
    ]
    return [
        "disk",
        "variant",
        "frames",
        "worst second",
        "longest gap ms",
        "longest read ms",
        "load MB/s",
    ], rows


def draw(samples: Samples) -> Figure:
    """Frames in each second: a panel for each disk."""
    from experiments.framework import plot

    figure, axes = plot.grid(2, 1, 6.4, 2, sharex=True)
    for axis, device in zip(axes, (SSD, SLOW)):
        for d, variant, sample in measured(samples):
            if d != device:
                continue
            each = sample["program"]["each_second"]
            style = "-" if variant.scheduler == "aplomb" else "--"
            axis.plot(range(len(each)), each, style, label=variant.title)
        axis.set_title(device.title, loc="left")
        axis.set_ylabel("frames")
        axis.legend(fontsize=6, ncol=2)
    axes[-1].set_xlabel("second")
    figure.suptitle(
        "A film read from a disk beside nine programs that read 20 MB each", fontsize=10
    )
    return figure


EXPERIMENT = Experiment(
    title="A film from a disk from which nine programs read",
    figure="Redline, Fig. 10",
    about=f"A film is read, {FILM.kb} KB each {FILM.every_ms} ms, for {SECONDS} s, beside nine "
    f"programs that read {LOAD.kb >> 10} MB at a time, all by direct I/O from one disk.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    disks=DISKS,
    inputs=((WORKLOADS / "reads", "film"),),
    profiles={"ordered": Profile((LINE,), only=True, config=("[disk]", "order = true"))},
    settings={"seconds": SECONDS, "disks": list(DISKS), "reservation_ms": str(RESERVATION)},
)
