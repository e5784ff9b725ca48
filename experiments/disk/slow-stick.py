"""Of no paper, a public complaint: a large file is copied to a slow USB stick, and programs that
write to a fast disk stand still, too.

The pages of the copy fill what all programs together may dirty, and then the kernel stops each
program that writes a page, whatever the device. (Newer kernels give each device and each cgroup a
part of its own.) Here 400 MB go to a device of 2 MB a second, and a program writes 64 KB each
100 ms to an SSD, without any fsync(): it only hands them to the page cache. Both have cgroups of
their own, as programs have that a desktop starts, or (ONE) the same.

By hand an administrator can limit the device's part (max_ratio and strict_limit of its bdi), if the
device is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.beside import reports
from experiments.framework.experiment import Profile
from experiments.framework.marks import at_most
from experiments.framework.memory import Variant, measured, of_scheduler
from experiments.framework.saves import DEVICES, device_at, percentile
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COPY_MB, WRITE_KB, PERIOD_MS = 400, 64, 100
SECONDS, QUICK_SECONDS = 120, 40
SETTLE_S = 10  # then the copy is in the page cache, as far as it may be
FAST, STICK = DEVICES[0], "450M,iops=100,rate=2M"
MOST_MS = 50
RESERVATION = Reservation(5000, 100000)
LINE = f"/job/save:iact:{RESERVATION}:IR:-:-"
VARIANTS = (
    Variant("plain", "eevdf", "EEVDF"),
    Variant("plain-one", "eevdf", "EEVDF, one cgroup"),
    Variant("by-hand", "eevdf", "EEVDF, the stick's max_ratio 1, strict", "max_ratio=1"),
    Variant("limits", "aplomb", "aplomb", profile="limits"),
    Variant("limits-one", "aplomb", "aplomb, one cgroup", profile="limits"),
    # The program has no specification here: it is best-effort, as the copy is.
    Variant("be", "aplomb", "aplomb, both best-effort", profile="be"),
)


ONE = "-one"  # the end of the name of a variant in which both are in one cgroup


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    steps = []
    for variant in of_scheduler(VARIANTS, scheduler):
        words = ["flooded", FAST.name, FAST.kind, FAST.cost, "", "with_stick", "disk1"]
        words += [variant.knob, "beside_flood", str(SETTLE_S), "/job/enter", "program"]
        words += [*scheduler.prefix(RESERVATION), "--", "/job/save", "/mnt/disk/log"]
        words += [str(WRITE_KB), str(PERIOD_MS), str(seconds), "--no-sync", "--"]
        place = "load=program" if variant.name.endswith(ONE) else "load"
        words += ["/job/enter", place, "/job/rewrite", str(SETTLE_S + seconds + 60)]
        words += [str(COPY_MB), "again", "/mnt/stick/copy"]
        length = SETTLE_S + seconds + 120
        steps.append(Step(variant.name, words, length, variant.profile))
    return steps


def read(folder: Path) -> dict[str, Any]:
    (writes,) = reports(folder / "stdout")
    begin, end = device_at(folder, "load"), device_at(folder, "after")
    return {
        "write_ms": writes["save_ms"],
        "fast_mb_per_s": round((end[1] - begin[1]) / (end[0] - begin[0]), 2),
    }


def judge(samples: Samples) -> list[Mark]:
    return [
        at_most(
            f"each write to the fast disk, {variant.title}", max(sample["write_ms"]), MOST_MS, "ms"
        )
        for variant, sample in measured(VARIANTS, {"aplomb": samples["aplomb"]})
    ]


def row(variant: Variant, sample: Mapping[str, Any]) -> list[object]:
    took = sample["write_ms"]
    late = sum(ms > MOST_MS for ms in took)
    parts = [round(percentile(took, part), 2) for part in (0.5, 0.99)]
    return [variant.title, len(took), late, *parts, round(max(took), 2)]


def table(samples: Samples) -> Table:
    rows = [row(variant, sample) for variant, sample in measured(VARIANTS, samples)]
    return ["variant", "writes", f"over {MOST_MS} ms", "median ms", "99 % ms", "worst ms"], rows


def draw(samples: Samples) -> Figure:
    """How long each write took, in order."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 1, 6.4, 3.0)
    for variant, sample in measured(VARIANTS, samples):
        axes[0].plot(sample["write_ms"], label=variant.title)
    axes[0].axhline(MOST_MS, color="#000000", linewidth=0.8, linestyle=":")
    axes[0].set_yscale("log")
    axes[0].set_ylabel("ms")
    axes[0].set_xlabel(f"write, one each {PERIOD_MS} ms; dotted: {MOST_MS} ms")
    axes[0].legend(fontsize=7)
    figure.suptitle("Writes to a fast disk while a slow stick is filled", fontsize=10)
    return figure


EXPERIMENT = Experiment(
    title="Writes to a fast disk while a slow stick is filled",
    figure="of no paper; a public complaint",
    about=f"A task copies {COPY_MB} MB to a device of 2 MB a second. A program writes {WRITE_KB} "
    f"KB each {PERIOD_MS} ms to an SSD, for {SECONDS} s, without fsync(). ext4.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    disks=(FAST.disk, STICK),
    profiles={
        "limits": Profile((LINE,), config=("[disk]", "limit-dirty = true")),
        "be": Profile((), config=("[disk]", "limit-dirty = true")),
    },
    settings={
        "copy_mb": COPY_MB,
        "write_kb": WRITE_KB,
        "period_ms": PERIOD_MS,
        "seconds": SECONDS,
        "disks": [FAST.disk, STICK],
    },
)
