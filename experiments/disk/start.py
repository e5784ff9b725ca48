"""Of no paper: a large program is started while others read from its disk, or write to it.

The program is LibreOffice without a display, as in redline/browser-start: it opens a letter, lays
it out and writes it as PDF. Nothing of it is in memory, so it reads its program, its libraries and
its settings from the disk, most of them by page faults of a mapped file, one after the other. Each
of these waits for what the others have at the disk.

The mark compares with the same start while nothing else uses the disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.errors import ExperimentError
from experiments.framework.experiment import Profile
from experiments.framework.marks import at_most
from experiments.framework.readers import Variant, counted, of_scheduler
from experiments.framework.saves import DEVICES, SECTOR, Device
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "/usr/lib/libreoffice"
WORDS = (
    f"{FOLDER}/program/soffice.bin --headless --norestore --convert-to pdf --outdir /tmp/home "
    "/job/letter.fodt"
).split()
LETTER = Path(__file__).parents[1] / "redline/letter.fodt"
# As the specification that aplomb ships for it.
RESERVATION = Reservation(6000, 50000)
SETTLE_S = 6  # then the flood has dirtied as much as it may
LIMIT_S = 300  # then the program is killed
ESTIMATE_S = 60  # of a step, for limits
MOST = 1.5  # times what the start takes alone
READERS, READ_KB = 8, 1024
FILE_MB = 200
# Each holds the program and what the flood writes.
DISKS = tuple(device.disk.replace("480M", "1000M") for device in DEVICES)
SECTORS_READ, SECTORS_WRITTEN, BUSY_MS = 3, 7, 10  # fields of what disk_at wrote


@dataclass(frozen=True)
class Flood:
    name: str
    title: str
    files: str = ""

    def words(self, device: Device) -> list[object]:
        seconds = LIMIT_S + SETTLE_S
        if self is READS:
            return [
                "/job/enter",
                "load",
                "/job/reads",
                f"/dev/{device.name}",
                seconds,
                READ_KB,
                READERS,
            ]
        if self is WRITES:
            files = [f"/mnt/disk/{file.partition(':')[0]}" for file in self.files.split(",")]
            return ["/job/enter", "load", "/job/rewrite", seconds, FILE_MB, "again", *files]
        return []


ALONE = Flood("alone", "nothing else")
READS = Flood("reads", f"{READERS} readers of {READ_KB >> 10} MB")
WRITES = Flood("writes", f"two writers of {FILE_MB} MB", f"first:{FILE_MB},second:{FILE_MB}")
FLOODS = (ALONE, READS, WRITES)


FIRST = ("ionice", "-c", "1")
VARIANTS = (
    Variant("none", "eevdf", "none", "none"),
    Variant("mq-deadline", "eevdf", "mq-deadline", "mq-deadline, real-time class", FIRST),
    Variant("bfq", "eevdf", "bfq", "BFQ, weights 1000:10"),
    Variant("iocost", "eevdf", "iocost", "iocost, weights 10000:1"),
    Variant("none", "aplomb", "none", "aplomb, none"),
    Variant("mq-deadline", "aplomb", "mq-deadline", "aplomb, mq-deadline"),
)


def step_name(variant: Variant, device: Device, flood: Flood) -> str:
    return f"{device.name}-{variant.name}-{flood.name}"


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    return [
        step(variant, scheduler, device, flood)
        for device in DEVICES
        for variant in of_scheduler(VARIANTS, scheduler)
        for flood in FLOODS
        # alone it is the disk's time, whatever its scheduler
        if flood is not ALONE or variant.kind == device.kind
        if not quick or variant.kind == device.kind
    ]


def step(variant: Variant, scheduler: Scheduler, device: Device, flood: Flood) -> Step:
    words: list[object] = ["installed", device.name, variant.kind, device.cost, WRITES.files]
    words += [FOLDER, "cold_start", FOLDER, LIMIT_S, SETTLE_S, "/job/enter", "program"]
    words += [*scheduler.prefix(RESERVATION), *variant.prefix, "--", *WORDS, "--"]
    words += flood.words(device)
    name = step_name(variant, device, flood)
    return Step(name, [str(word) for word in words], ESTIMATE_S, "ordered")


def read(folder: Path) -> dict[str, Any]:
    printed = (folder / "stdout").read_text()
    killed = (folder / "killed").exists()
    if not killed and "convert " not in printed:
        said = (folder / "stderr").read_text()
        raise ExperimentError(f"{folder}: the program did not do its work: {printed} {said}")
    seconds = float((folder / "seconds").read_text())
    sectors = counted(folder, SECTORS_READ) + counted(folder, SECTORS_WRITTEN)
    return {
        "seconds": None if killed else round(seconds, 3),
        "disk_mb_per_s": round(sectors * SECTOR / (1 << 20) / seconds, 2),
        "disk_busy_percent": round(counted(folder, BUSY_MS) / seconds / 10, 1),
    }


def measured(
    samples: Samples, device: Device, flood: Flood
) -> Iterator[tuple[Variant, Mapping[str, Any]]]:
    for variant in VARIANTS:
        sample = samples.get(variant.scheduler, {}).get(step_name(variant, device, flood))
        if sample is not None:
            yield variant, sample


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for device in DEVICES:
        alone = [
            s["seconds"] for v, s in measured(samples, device, ALONE) if v.scheduler == "aplomb"
        ]
        most = round(MOST * alone[0], 3) if alone and alone[0] else None
        for flood in (READS, WRITES):
            found = list(measured(samples, device, flood))
            stock = [s["seconds"] or LIMIT_S for v, s in found if v.scheduler == "eevdf"]
            for variant, sample in found:
                if variant.scheduler != "aplomb" or variant.kind != device.kind:
                    continue
                where = f"start beside {flood.title}, {device.title}"
                took = sample["seconds"]
                marks.append(at_most(f"{where}, {MOST} x alone", took, most, "s"))
                if stock:
                    marks.append(
                        at_most(f"{where}, against the best of stock", took, min(stock), "s")
                    )
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            device.title,
            flood.title,
            variant.title + ("" if sample["seconds"] else " (killed)"),
            sample["seconds"],
            sample["disk_mb_per_s"],
            sample["disk_busy_percent"],
        ]
        for device in DEVICES
        for flood in FLOODS
        for variant, sample in measured(samples, device, flood)
    ]
    return ["disk", "beside", "variant", "s until it answers", "disk MB/s", "disk busy %"], rows


def draw(samples: Samples) -> Figure:
    """The time of each start, a panel for each disk; dotted: the mark."""
    from experiments.framework import plot

    figure, axes = plot.grid(2, 1, 6.4, 2.6)
    for axis, device in zip(axes, DEVICES):
        rows = [
            (flood, variant, sample)
            for flood in FLOODS
            for variant, sample in measured(samples, device, flood)
        ]
        for row, (flood, variant, sample) in enumerate(rows):
            axis.barh(row, sample["seconds"] or LIMIT_S, color=plot.colour(variant.scheduler))
            if flood is ALONE and variant.scheduler == "aplomb" and sample["seconds"]:
                axis.axvline(
                    MOST * sample["seconds"], color="#000000", linewidth=0.8, linestyle=":"
                )
        names = [f"{flood.name}: {variant.title}" for flood, variant, _ in rows]
        axis.set_yticks(range(len(rows)), names, fontsize=6)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_title(device.title, loc="left")
    axes[-1].set_xlabel(f"seconds until it answers (dotted: {MOST} x alone)")
    figure.suptitle("LibreOffice started while others use its disk", fontsize=10)
    return figure


EXPERIMENT = Experiment(
    title="A large program started while others use its disk",
    figure="of no paper; a public complaint",
    about=f"LibreOffice starts from a disk and converts a document, with nothing of it in memory: "
    f"alone, beside {READS.title} (direct I/O), beside {WRITES.title} each (page cache). ext4.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    disks=DISKS,
    packages=("libreoffice-writer-nogui",),
    inputs=(LETTER,),
    profiles={"ordered": Profile((), config=("[disk]", "order = true", "limit-dirty = true"))},
    settings={
        "program": WORDS[0],
        "disks": list(DISKS),
        "reservation_ms": str(RESERVATION),
        "limit_s": LIMIT_S,
        "flood_settles_s": SETTLE_S,
    },
)
