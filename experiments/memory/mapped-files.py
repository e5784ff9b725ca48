"""A program that works on a mapped file, without swap, beside allocators that want all memory.

Without swap the kernel can only take pages of files: programs, libraries, mapped data. They are
read again and again, the disk is always busy, and the desktop stands still. That is a well-known
public complaint. Here workloads/mapped.c reads one byte of each page of the next 4 MB of a mapped
file of 100 MB, 25 times a second, so it uses each page once a second. A period that is not done
when the next one begins is missed, as a frame would be.

The load is two allocators, each of which writes to 90 % of what programs can have, and a loop that
reads other files of the same disk. One allocator alone does not fit beside the mapped file, and
both together do not fit at all. So the kernel's out-of-memory killer ends one now and then, and it
is started anew at once, as by a user who tries again. The alternative, allocators whose sum just
fits, would depend on some MB more or less; these always want more than there is. How many were
killed is in the table: a kernel that kills earlier has less pressure.

The disk serves 400 requests and 40 MB a second, so all of the file can be read in 4 s at best.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.beside import by_hand, merged, reports, words
from experiments.framework.experiment import Profile
from experiments.framework.marks import at_least, at_most
from experiments.framework.memory import (
    GUEST_MB,
    MIN_TTL_MS,
    PROTECT,
    Variant,
    counted,
    measured,
    of_scheduler,
    pages_a_second,
    program,
)
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE_MB, PART_MB, PERIOD_MS = 100, 4, 40
PERIODS, QUICK_PERIODS = 1500, 500
# Reading the file takes the program 4 s or more; then the load has 3 s to take all free memory,
# which is faster than the disk can be asked for it.
SETTLE_S, LEAD_S = 7, 10
# A program that stands still makes each period late, and is ended after this many times its length.
LONGEST = 2
OTHERS_MB = (80, 80)
DISK = "320M,iops=400,rate=40M"
FOLDER = "/mnt/disk"
FILE = f"{FOLDER}/mapped"
OTHERS = tuple(f"{FOLDER}/other-{number}" for number in range(len(OTHERS_MB)))
FILES = ",".join(
    f"{path}={size}" for path, size in zip((FILE, *OTHERS), (FILE_MB, *OTHERS_MB), strict=True)
)
# What the kernel leaves to programs of GUEST_MB.
USABLE_MB = 550
ALLOCATORS, ALLOCATOR_MB = 2, 90 * USABLE_MB // 100
MOST_MISSED_PERCENT, MOST_FAULTS = 1, 150
RESERVATION = Reservation(5000, PERIOD_MS * 1000)
LINE = f"/job/mapped:iact:{RESERVATION}:IR:-:-"
VARIANTS = (
    *by_hand("120M"),
    Variant("be", "aplomb", "aplomb", profile="mapped"),
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    periods = QUICK_PERIODS if quick else PERIODS
    seconds = LEAD_S + periods * PERIOD_MS / 1000
    # The load ends by a signal when the program has ended.
    allocators = f"/job/membomb {ALLOCATORS} {ALLOCATOR_MB} {20 * round(seconds)} --again"
    load = ["/job/enter", "load", "sh", "-c", f"/job/reread {' '.join(OTHERS)} & exec {allocators}"]
    mapped = ["/job/mapped", FILE, PART_MB, PERIOD_MS, LEAD_S, periods]
    all_words = [
        "with_disk",
        FILES,
        *words(
            "before_load",
            SETTLE_S,
            [*program(*scheduler.prefix(RESERVATION)), "--", *mapped],
            load,
        ),
    ]
    length = LONGEST * seconds + 30
    return [variant.step(all_words, length) for variant in of_scheduler(VARIANTS, scheduler)]


def read(folder: Path) -> dict[str, Any]:
    seconds = reports(folder / "stdout")
    load = merged(folder / "load")
    return {
        "periods": sum(each["periods"] for each in seconds),
        "missed": sum(each["missed"] for each in seconds),
        "major_faults": sum(each["major_faults"] for each in seconds),
        "longest_ms": max((each["longest_ms"] for each in seconds), default=None),
        "seconds": seconds,
        "killed": (folder / "killed").exists(),
        "under_load": counted(folder, "load", "after"),
        "load": load,
        "allocators_pages_per_s": pages_a_second(load, 0) if "pages_each_second" in load else None,
        "allocators_killed": load.get("killed"),
        "reread_mb": load.get("reread_mb"),
    }


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for _, sample in measured(VARIANTS, {"aplomb": samples["aplomb"]}):
        all_done = not sample["killed"]
        most = MOST_MISSED_PERCENT * sample["periods"] // 100
        marks += [
            at_least("the program lives on", int(all_done), 1, "program"),
            at_most(
                f"periods missed, of {sample['periods']}",
                sample["missed"] if all_done else None,
                most,
                "periods",
            ),
            at_most(
                "major faults", sample["major_faults"] if all_done else None, MOST_FAULTS, "faults"
            ),
        ]
    return marks


def table(samples: Samples) -> Table:
    rows = []
    for variant, sample in measured(VARIANTS, samples):
        memory = sample["under_load"]
        rows.append(
            [
                variant.title + (" (killed)" if sample["killed"] else ""),
                sample["periods"],
                sample["missed"],
                sample["longest_ms"],
                sample["major_faults"],
                memory["workingset_refault_file"],
                memory["allocstall"],
                sample["allocators_pages_per_s"],
                sample["allocators_killed"],
                sample["reread_mb"],
            ]
        )
    return [
        "variant",
        "periods",
        "missed",
        "longest ms",
        "major faults",
        "file refaults",
        "allocstall",
        "allocators' pages/s",
        "allocators killed",
        "MB read by the loop",
    ], rows


def draw(samples: Samples) -> Figure:
    """The longest period of each second, a row for each variant."""
    from experiments.framework import plot

    found = list(measured(VARIANTS, samples))
    figure, axes = plot.grid(len(found), 1, 6.4, 1.5, sharex=True, sharey=True)
    for axis, (variant, sample) in zip(axes, found):
        at, times, longest = 0.0, [], []
        for each in sample["seconds"]:
            at += each["periods"] * PERIOD_MS / 1000
            times.append(at)
            longest.append(each["longest_ms"])
        axis.plot(times, longest, "o-", color=plot.colour(variant.scheduler), markersize=3)
        axis.axhline(PERIOD_MS, color="#000000", linewidth=0.8, linestyle=":")
        axis.set_yscale("log")
        axis.set_ylabel("ms")
        axis.set_title(variant.title, loc="left")
    axes[-1].set_xlabel(f"time (s); longest work of a second (dotted: the period, {PERIOD_MS} ms)")
    figure.suptitle(
        f"{PART_MB} MB of a mapped file each {PERIOD_MS} ms, beside {ALLOCATORS} allocators",
        fontsize=10,
    )
    return figure


EXPERIMENT = Experiment(
    title="A program that works on a mapped file, without swap",
    figure="of no paper; a public complaint",
    about=f"In a guest of {GUEST_MB} MB without swap a program reads one byte of each page of the "
    f"next {PART_MB} MB of a mapped file of {FILE_MB} MB, each {PERIOD_MS} ms, {PERIODS} times; "
    f"{ALLOCATORS} tasks write to each page of {ALLOCATOR_MB} MB each, again and again, and start "
    "anew when they were killed; a loop reads other files of the same disk.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles={"mapped": Profile((LINE,), config=PROTECT)},
    settings={
        "guest_mb": GUEST_MB,
        "swap": "none",
        "disk": DISK,
        "file_mb": FILE_MB,
        "part_mb": PART_MB,
        "period_ms": PERIOD_MS,
        "periods": PERIODS,
        "lead_s": LEAD_S,
        "other_files_mb": list(OTHERS_MB),
        "allocators": ALLOCATORS,
        "allocator_mb": ALLOCATOR_MB,
        "min_ttl_ms": MIN_TTL_MS,
        "reservation_ms": str(RESERVATION),
    },
    memory_mb=GUEST_MB,
    disks=(DISK,),
)
