"""A protected program that is idle for longer than its protection period gives its memory back.

Protection without an end is the usual mistake of a memory.min that is set by hand. Here the program
(workloads/editor.c) touches its memory once and then sleeps. At the protection period pi after
that, a best-effort job beside it wants so much that both do not fit. With protection the job swaps
its own memory in and out; without, the program's memory goes to swap and the job runs at full
speed. pi is 10 s, not 30 minutes as for the shipped specifications.

What the job gets is compared with aplomb without its memory layer, where nothing is protected. One
more variant separates the parts: the layer is on, but the program is not interactive, so that only
the speed bumps remain. At the end the program touches all of its memory again, which tells what it
had to give back.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.beside import by_hand, peak_mb, reports
from experiments.framework.experiment import Profile
from experiments.framework.frames import read_load
from experiments.framework.marks import at_least
from experiments.framework.memory import (
    GUEST_MB,
    MIN_TTL_MS,
    PROTECT,
    SWAP,
    Variant,
    counted,
    measured,
    of_scheduler,
    program,
)
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN_MB, FILE_MB = 250, 20
# Both together want 120 MB more than the 550 MB that the kernel leaves to programs.
JOB_MB = 400
PI_S = 10
# The program needs less than this to touch its memory. The job starts PI_S after that.
START_S = 2
JOB_S, QUICK_JOB_S = 60, 25
RETURN_S = 20  # at most, until the program has touched its memory again
DISK = "64M,iops=400,rate=40M"
FILE = "document"
RESERVATION = Reservation(5000, 100000)
LINE = f"/mnt/disk/editor:iact:{RESERVATION}:IR:{PI_S}:-"
LEAST = 0.95
NONE, OURS = "unprotected", "protected"
VARIANTS = (
    *by_hand("300M"),
    Variant(NONE, "aplomb", "aplomb, memory not protected", profile=NONE),
    Variant("bumps", "aplomb", "aplomb, program best-effort", profile="best-effort"),
    Variant(OURS, "aplomb", f"aplomb, protection period {PI_S} s", profile="protected"),
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_JOB_S if quick else JOB_S
    settle = START_S + PI_S
    words = [
        "left",
        "editor",
        f"{FILE}:{FILE_MB}:document",
        settle,
        *program(*scheduler.prefix(RESERVATION)),
        "--",
        OWN_MB,
        settle + seconds,
        1,
        f"{FILE}=/mnt/disk/{FILE}",
        "--",
        *["/job/enter", "load", "/job/membomb", 1, JOB_MB, seconds],
    ]
    length = settle + seconds + RETURN_S
    return [variant.step(words, length) for variant in of_scheduler(VARIANTS, scheduler)]


def read(folder: Path) -> dict[str, Any]:
    load = read_load(folder / "load")
    returns = reports(folder / "stdout")
    return {
        "job_pages_each_second": load["pages_each_second"] if load else [],
        "job_peak_mb": peak_mb(folder, "load"),
        "return_ms": returns[0]["ms"] if returns else None,
        "return_major_faults": returns[0]["major_faults"] if returns else None,
        "killed": (folder / "killed").exists(),
        "under_load": counted(folder, "load", "after"),
    }


def pages_a_second(sample: Mapping[str, Any]) -> float | None:
    each = sample["job_pages_each_second"]
    return round(sum(each) / len(each)) if each else None


def seconds_to_full_speed(sample: Mapping[str, Any]) -> int | None:
    """Until the job writes half as much in a second as in its best one."""
    each = sample["job_pages_each_second"]
    return next((k for k, pages in enumerate(each) if 2 * pages >= max(each)), None)


def judge(samples: Samples) -> list[Mark]:
    ours = samples["aplomb"].get(OURS)
    without = samples["aplomb"].get(NONE)
    if not ours:
        return []
    speed, speed_without = (pages_a_second(s) if s else None for s in (ours, without))
    name = f"from the protection period ({PI_S} s) after the program's last use on"
    return [
        at_least(
            f"memory that the job has at most, {name}, against {LEAST} of that without protection",
            ours["job_peak_mb"],
            round(LEAST * without["job_peak_mb"], 1) if without else None,
            "MB",
        ),
        at_least(
            f"pages that the job writes, {name}, against {LEAST} of those without protection",
            speed,
            round(LEAST * speed_without) if speed_without else None,
            "pages/s",
        ),
        at_least("the program lives on", int(not ours["killed"]), 1, "program"),
    ]


def table(samples: Samples) -> Table:
    rows = []
    for variant, sample in measured(VARIANTS, samples):
        memory = sample["under_load"]
        rows.append(
            [
                variant.title + (" (killed)" if sample["killed"] else ""),
                sample["job_peak_mb"],
                pages_a_second(sample),
                seconds_to_full_speed(sample),
                memory["pswpin"],
                memory["pswpout"],
                memory["allocstall"],
                sample["return_ms"],
                sample["return_major_faults"],
            ]
        )
    return [
        "variant",
        "job's most MB",
        "job's pages/s",
        "s to half of best",
        "pswpin",
        "pswpout",
        "allocstall",
        "program's return ms",
        "its major faults",
    ], rows


def draw(samples: Samples) -> Figure:
    """The job's speed over time."""
    from experiments.framework import plot

    figure, (axis,) = plot.grid(1, 1, 6.8, 3.2)
    styles = ("-", "--", ":")
    seen: dict[str, int] = {}
    for variant, sample in measured(VARIANTS, samples):
        number = seen.get(variant.scheduler, 0)
        seen[variant.scheduler] = number + 1
        each = sample["job_pages_each_second"]
        axis.plot(
            [second + 0.5 for second in range(len(each))],
            [max(pages, 1) for pages in each],
            styles[number % len(styles)],
            color=plot.colour(variant.scheduler),
            label=variant.title,
        )
    axis.set_yscale("log")
    axis.set_ylabel("pages/s")
    axis.set_xlabel(f"time (s) from {PI_S} s after the program's last use on")
    figure.suptitle(
        f"A job of {JOB_MB} MB beside an idle program of {OWN_MB + FILE_MB} MB", fontsize=10
    )
    plot.one_legend(figure, [axis], 2)
    return figure


EXPERIMENT = Experiment(
    title="A protected program that is idle gives its memory back",
    figure="of no paper; Redline, section 4, has the protection period",
    about=f"In a guest of {GUEST_MB} MB a program touches {OWN_MB + FILE_MB} MB and then sleeps; "
    f"its protection period is {PI_S} s. {PI_S} s after its last use a best-effort job begins to "
    f"write to each page of {JOB_MB} MB, again and again, for {JOB_S} s.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles={
        NONE: Profile((LINE,)),
        "best-effort": Profile(config=PROTECT),
        "protected": Profile((LINE,), config=PROTECT),
    },
    settings={
        "guest_mb": GUEST_MB,
        "swap": SWAP,
        "disk": DISK,
        "own_mb": OWN_MB,
        "file_mb": FILE_MB,
        "job_mb": JOB_MB,
        "job_s": JOB_S,
        "pi_s": PI_S,
        "min_ttl_ms": MIN_TTL_MS,
        "reservation_ms": str(RESERVATION),
    },
    memory_mb=GUEST_MB,
    disks=(DISK,),
    swaps=(SWAP,),
)
