"""Saves beside a flood of writes: an editor that writes a small file and calls fsync() each second,
on a disk that other programs fill.

The disks have the guest's own time: an SSD (2,000 requests and 80 MB a second, four at a time) and
a slow disk (200 and 40 MB, one after the other), or a disk of 7,200 turns a minute that orders its
requests. Each is measured under the kernel's I/O schedulers with what they offer an administrator
to have the editor come first, and with aplomb.

The flood's own rate is what the device wrote, by the kernel's count, and not what the programs
wrote into the page cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .beside import reports
from .experiment import Experiment, Profile, Samples, Step, Table
from .marks import Mark, at_least, at_most
from .schedulers import Reservation, Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAVE_KB, PERIOD_MS = 30, 1000
SECONDS, QUICK_SECONDS = 100, 20
SETTLE_S = 10  # then the flood has dirtied as much as it may
# The flood ends itself so much later, and with it a save that would never be done.
REST_S = 40
FILE_MB = 200
SECTOR = 512
RESERVATION = Reservation(5000, 100000)
LINE = f"/job/save:iact:{RESERVATION}:IR:-:-"
LEAST_RATE = 0.95  # of the best stock scheduler's


def model(bytes_per_s: int, requests_per_s: int, at_random_per_s: int = 0) -> str:
    """What blk-iocost is told of a device, by an administrator that has measured it."""
    random = at_random_per_s or requests_per_s
    kinds = [
        f"{kind}bps={bytes_per_s} {kind}seqiops={requests_per_s} {kind}randiops={random}"
        for kind in "rw"
    ]
    return " ".join(kinds)


@dataclass(frozen=True)
class Device:
    """name: of the lab's disk; kind: the I/O scheduler that aplomb is judged with; cost: model();
    most_ms, worst_ms: what 99 % of the saves and what all of them may take."""

    name: str
    title: str
    disk: str
    kind: str
    cost: str
    most_ms: int
    worst_ms: int


SSD = Device(
    name="disk0",
    title="SSD",
    disk="480M,iops=2000,rate=80M,latency=2ms",
    kind="none",
    cost=model(80 << 20, 2000),
    most_ms=100,
    worst_ms=300,
)
SLOW = Device(
    name="disk1",
    title="slow disk",
    disk="480M,iops=200,rate=40M",
    kind="mq-deadline",
    cost=model(40 << 20, 200),
    most_ms=500,
    worst_ms=1500,
)
DEVICES = (SSD, SLOW)
# Alone in its guest. As measured: lab/README.md, "Rotating disks".
SEEKS = Device(
    name="disk0",
    title="disk with seeks",
    disk="480M,rpm=7200,ncq=1s",
    kind="mq-deadline",
    cost=model(100 << 20, 1600, 76),
    most_ms=500,
    worst_ms=1500,
)


@dataclass(frozen=True)
class Variant:
    """A scheduler of CPUs and one of the disk; prefix: of the editor's command."""

    scheduler: str
    kind: str
    title: str
    prefix: tuple[str, ...] = ()

    def step(self, device: Device) -> str:
        return f"{device.name}-{self.kind}"


VARIANTS = (
    Variant("eevdf", "none", "none"),
    Variant("eevdf", "mq-deadline", "mq-deadline, real-time class", ("ionice", "-c", "1")),
    Variant("eevdf", "bfq", "BFQ, weights 1000:10"),
    Variant("eevdf", "iocost", "iocost, weights 10000:1"),
    Variant("aplomb", "none", "aplomb, none"),
    Variant("aplomb", "mq-deadline", "aplomb, mq-deadline"),
)


def make(scheduler: Scheduler, quick: bool, flood: str, devices: Sequence[Device]) -> list[Step]:
    """flood: how rewrite.c writes, "again" or "anew"."""
    seconds = QUICK_SECONDS if quick else SECONDS
    files = ["/mnt/disk/first", "/mnt/disk/second"] if flood == "again" else ["/mnt/disk/first"]
    made = ",".join(f"{Path(file).name}:{FILE_MB}" for file in files) if flood == "again" else ""
    lasts = SETTLE_S + seconds + REST_S
    steps = []
    for device in devices:
        for variant in VARIANTS:
            if variant.scheduler != scheduler.name:
                continue
            words: list[object] = ["flooded", device.name, variant.kind, device.cost]
            words += [
                made,
                "beside_flood",
                SETTLE_S,
                "/job/enter",
                "program",
                *scheduler.prefix(RESERVATION),
            ]
            words += [*variant.prefix, "--", "/job/save", "/mnt/disk/text"]
            words += [SAVE_KB, PERIOD_MS, seconds, "--", "/job/enter", "load"]
            words += ["/job/rewrite", lasts, FILE_MB, flood, *files]
            # making the files, and the rest of the flood
            length = 30 + lasts
            name = variant.step(device)
            steps.append(Step(name, [str(word) for word in words], length, "limits"))
    return steps


def device_at(folder: Path, phase: str) -> tuple[float, int]:
    """Seconds since boot, and MB that the device had written (Documentation/block/stat)."""
    fields = (folder / f"disk-{phase}").read_text().split()
    return float(fields[0]), int(fields[7]) * SECTOR >> 20


def read(folder: Path) -> dict[str, Any]:
    (saves,) = reports(folder / "stdout")
    (flood,) = reports(folder / "load")
    begin, end = device_at(folder, "load"), device_at(folder, "after")
    return {
        "save_ms": saves["save_ms"],
        "flood_mb_each_second": flood["written_mb"],
        "device_mb_per_s": round((end[1] - begin[1]) / (end[0] - begin[0]), 2),
    }


def measured(samples: Samples, device: Device) -> Iterator[tuple[Variant, Mapping[str, Any]]]:
    for variant in VARIANTS:
        sample = samples.get(variant.scheduler, {}).get(variant.step(device))
        if sample is not None:
            yield variant, sample


def percentile(values: Sequence[float], part: float) -> float:
    """The least value that at least this part of all does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def judge(samples: Samples, devices: Sequence[Device]) -> list[Mark]:
    marks = []
    for device in devices:
        found = list(measured(samples, device))
        stock = [(v, s) for v, s in found if v.scheduler == "eevdf"]
        for variant, sample in found:
            if variant.scheduler != "aplomb" or variant.kind != device.kind:
                continue
            where, took = f", {device.title}", sample["save_ms"]
            late = percentile(took, 0.99)
            marks += [
                at_most(f"99 % of saves{where}", late, device.most_ms, "ms"),
                at_most(f"worst save{where}", max(took), device.worst_ms, "ms"),
            ]
            if stock:
                best = min(percentile(s["save_ms"], 0.99) for _, s in stock)
                rate = max(s["device_mb_per_s"] for _, s in stock)
                marks += [
                    at_most(f"99 % of saves{where}, against the best of stock", late, best, "ms"),
                    at_least(
                        f"rate of the device{where}, {LEAST_RATE} of the best of stock",
                        sample["device_mb_per_s"],
                        round(LEAST_RATE * rate, 2),
                        "MB/s",
                    ),
                ]
    return marks


def table(samples: Samples, devices: Sequence[Device]) -> Table:
    rows: list[list[object]] = []
    for device in devices:
        for variant, sample in measured(samples, device):
            took = sample["save_ms"]
            rows.append(
                [
                    device.title,
                    variant.title,
                    len(took),
                    round(percentile(took, 0.5), 1),
                    round(percentile(took, 0.99), 1),
                    round(max(took), 1),
                    sample["device_mb_per_s"],
                ]
            )
    return ["disk", "variant", "saves", "median ms", "99 % ms", "worst ms", "device MB/s"], rows


def draw(samples: Samples, devices: Sequence[Device]) -> Figure:
    """How long each save took, sorted: a panel for each disk."""
    from . import plot

    figure, axes = plot.grid(len(devices), 1, 6.4, 2.2, sharex=True)
    for axis, device in zip(axes, devices):
        for variant, sample in measured(samples, device):
            took = sorted(sample["save_ms"])
            parts = [(i + 1) / len(took) * 100 for i in range(len(took))]
            style = "-" if variant.scheduler == "aplomb" else "--"
            axis.plot(parts, took, style, label=variant.title)
        axis.set_yscale("log")
        axis.set_ylabel("ms")
        axis.set_title(device.title, loc="left")
        axis.legend(fontsize=6, ncol=2)
    axes[-1].set_xlabel("% of saves that took at most so long")
    figure.suptitle("Saves with fsync() beside a flood of writes", fontsize=10)
    return figure


def experiment(
    title: str, figure: str, about: str, flood: str, devices: Sequence[Device] = DEVICES
) -> Experiment:
    """An experiment of this kind. flood: "again" or "anew" (workloads/rewrite.c)."""
    return Experiment(
        title=title,
        figure=figure,
        about=about,
        steps=lambda scheduler, quick: make(scheduler, quick, flood, devices),
        read=read,
        judge=lambda samples: judge(samples, devices),
        table=lambda samples: table(samples, devices),
        draw=lambda samples: draw(samples, devices),
        schedulers=("eevdf", "aplomb"),
        disks=tuple(device.disk for device in devices),
        profiles={"limits": Profile((LINE,), config=("[disk]", "limit-dirty = true"))},
        settings={
            "file_mb": FILE_MB,
            "save_kb": SAVE_KB,
            "period_ms": PERIOD_MS,
            "saves_for_s": SECONDS,
            "reservation_ms": str(RESERVATION),
            "disks": [device.disk for device in devices],
            "iocost": {device.name: device.cost for device in devices},
        },
    )
