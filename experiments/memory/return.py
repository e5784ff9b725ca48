"""A program that its user left for a while answers again, beside memory bombs.

The program (workloads/editor.c) is like an editor: 80 MB of its own memory, a document of 20 MB
that it has mapped, and two libraries. All files, its own too, are on a disk with a time of its own.
At each return it touches all of its pages. What was evicted meanwhile is read back, a page or a few
at a time, from devices that the bombs keep busy.

A page of a file is charged to the cgroup that read it first. So one library is the program's alone,
and the other was read before by a program in the root cgroup, as a desktop's common libraries are.

The variants of stock Linux are those of redline/memory-bomb, and memory.low beside memory.min for
the protection by hand. With the kernel's multi-generational LRU memory.low only moves a cgroup to
the tail of the list once; global reclaim then takes its pages too (mm/vmscan.c, shrink_one()).
Under aplomb the program starts in a cgroup of its own as under the others, which is protected as it
is; and, as "moved", in the root cgroup, from which the daemon moves it.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.frames import read_load
from experiments.framework.marks import at_least, at_most
from experiments.framework.memory import (
    BOMB_MB,
    BOMBS,
    COLUMNS,
    GUEST_MB,
    Variant,
    bombs,
    by_hand,
    cells,
    in_short_memory,
    measured,
    no_reclaim,
    of_scheduler,
    program,
    protecting,
    shortage,
)
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN_MB = 80
# Name of the file, MB, kind (guest/memory.sh).
FILES = (
    ("document", 20, "document"),
    ("library", 12, "library"),
    ("shared-library", 12, "shared"),
)
# As workloads/editor.c names them.
PARTS = ("program", "memory", *(name for name, _, _ in FILES))
IDLE_S, RETURNS = 60, 20
QUICK_IDLE_S, QUICK_RETURNS = 20, 4
# Nothing is judged of stock Linux, and a return takes half a minute there.
STOCK_RETURNS, QUICK_STOCK_RETURNS = 4, 1
# The same program under the same protection: a few show that the way there makes no difference.
MOVED_RETURNS, QUICK_MOVED_RETURNS = 5, 2
SETTLE_S = 4
SLOW_RETURN_S, STOCK_RETURN_S = 1, 40  # estimates, for limits only
LONGEST_MS = 20
DISK = "64M,iops=400,rate=40M"
RESERVATION = Reservation(5000, 100000)
EDITOR_LINE = f"/mnt/disk/editor:iact:{RESERVATION}:IR:-:-"
PROTECTED = "130M"
PLAIN, MIN, TTL = by_hand(PROTECTED)
LOW = Variant("low", "eevdf", f"EEVDF, memory.low {PROTECTED}", f"memory.low={PROTECTED}")
VARIANTS = (
    PLAIN,
    LOW,
    MIN,
    TTL,
    Variant("be", "aplomb", "aplomb", profile="editor"),
    Variant("moved", "aplomb", "aplomb, started in the root cgroup", profile="editor"),
)
PLACES = {"moved": ""}  # the cgroup in which a variant's program starts, if not /program


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    idle, returns = (QUICK_IDLE_S, QUICK_RETURNS) if quick else (IDLE_S, RETURNS)
    takes = SLOW_RETURN_S
    if scheduler.name != "aplomb":
        returns, takes = QUICK_STOCK_RETURNS if quick else STOCK_RETURNS, STOCK_RETURN_S
    steps = []
    for variant in of_scheduler(VARIANTS, scheduler):
        place = PLACES.get(variant.name, "program")
        times = returns
        if variant.name in PLACES:
            times = QUICK_MOVED_RETURNS if quick else MOVED_RETURNS
        longest = times * (idle + takes)
        words = [
            "left",
            "editor",
            ",".join(f"{name}:{mb}:{kind}" for name, mb, kind in FILES),
            SETTLE_S,
            *program(*scheduler.prefix(RESERVATION), place=place),
            "--",
            OWN_MB,
            idle,
            times,
            *(f"{name}=/mnt/disk/{name}" for name, _, _ in FILES),
            "--",
            *bombs(20 * longest),  # they get a signal when the program has ended
        ]
        steps.append(variant.step(words, longest + 20))
    return steps


def read(folder: Path) -> dict[str, Any]:
    returns = [json.loads(line) for line in (folder / "stdout").read_text().splitlines()]
    load = read_load(folder / "load")
    return {
        "ms": [each["ms"] for each in returns],
        "major_faults": [each["major_faults"] for each in returns],
        "parts_ms": {part: [each["parts_ms"][part] for each in returns] for part in PARTS},
        # By the mapping that each fault was in: the last part of a file's name, "[stack]", …
        "faults_of": [each["faults_of"] for each in returns],
        "killed": (folder / "killed").exists(),
        **shortage(folder, load, SETTLE_S),
        "load": load,
    }


def faulting(sample: Mapping[str, Any]) -> str:
    """Which mappings of the program had major faults, and how many in all returns."""
    total: dict[str, int] = {}
    for faults in sample["faults_of"]:
        for mapping, count in faults.items():
            total[mapping] = total.get(mapping, 0) + count
    return ", ".join(f"{mapping} {count}" for mapping, count in sorted(total.items()))


def in_time(sample: Mapping[str, Any]) -> int:
    """How many returns were as all are to be."""
    returns = zip(sample["ms"], sample["major_faults"])
    return sum(1 for ms, faults in returns if ms <= LONGEST_MS and not faults)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for variant, sample in measured(VARIANTS, {"aplomb": samples["aplomb"]}):
        where = f" ({variant.title})"
        note = faulting(sample)
        marks += [
            at_most(f"longest return{where}", max(sample["ms"], default=None), LONGEST_MS, "ms"),
            at_most(
                f"major faults in a return, most{where}",
                max(sample["major_faults"], default=None),
                0,
                "faults",
                note,
            ),
            at_least(f"the program lives on{where}", int(not sample["killed"]), 1, "program"),
            no_reclaim(sample, where),
        ]
    return marks


def table(samples: Samples) -> Table:
    rows = []
    for variant, sample in measured(VARIANTS, samples):
        times = sorted(sample["ms"])
        rows.append(
            [
                variant.title + (" (killed)" if sample["killed"] else ""),
                len(times),
                in_time(sample),
                round(statistics.median(times), 3) if times else None,
                times[-1] if times else None,
                max(sample["major_faults"], default=None),
                faulting(sample) or "-",
                *cells(sample),
            ]
        )
    return [
        "variant",
        "returns",
        f"in {LONGEST_MS} ms without faults",
        "median ms",
        "longest ms",
        "most major faults",
        "faults of all returns, by file",
        *COLUMNS,
    ], rows


def draw(samples: Samples) -> Figure:
    """Each return's time, a row of dots for each variant."""
    from experiments.framework import plot

    found = list(measured(VARIANTS, samples))
    figure, (axis,) = plot.grid(1, 1, 6.4, 2.6)
    for row, (variant, sample) in enumerate(found):
        times = sample["ms"]
        colour = plot.colour(variant.scheduler)
        axis.plot(times, [row] * len(times), "o", color=colour, alpha=0.6, markersize=5)
    axis.axvline(LONGEST_MS, color="#000000", linewidth=0.8, linestyle=":")
    axis.set_xscale("log")
    axis.set_yticks(range(len(found)), [variant.title for variant, _ in found], fontsize=8)
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.set_xlabel(f"milliseconds of each return (dotted: {LONGEST_MS} ms)")
    figure.suptitle(f"A program answers again beside {BOMBS} memory bombs", fontsize=10)
    return figure


EXPERIMENT = in_short_memory(
    Experiment(
        title="A program that was left answers again, beside memory bombs",
        figure="of no paper; Redline, section 8.2, has the bombs",
        about=f"In a guest of {GUEST_MB} MB a program with {OWN_MB} MB of memory and "
        f"{sum(mb for _, mb, _ in FILES)} MB of mapped files sleeps for {IDLE_S} s and then "
        f"touches all of its pages, {RETURNS} times (stock Linux: {STOCK_RETURNS}; started in the "
        f"root cgroup: {MOVED_RETURNS}); {BOMBS} tasks write to each page of {BOMB_MB} MB each, "
        "again and again.",
        steps=make,
        read=read,
        judge=judge,
        table=table,
        draw=draw,
        profiles={"editor": protecting(EDITOR_LINE)},
        settings={
            "disk": DISK,
            "own_mb": OWN_MB,
            "files_mb": {name: mb for name, mb, _ in FILES},
            "idle_s": IDLE_S,
            "returns": RETURNS,
            "stock_returns": STOCK_RETURNS,
            "moved_returns": MOVED_RETURNS,
            "reservation_ms": str(RESERVATION),
            "protected": PROTECTED,
            "bombs_settle_s": SETTLE_S,
        },
        disks=(DISK,),
    )
)
