"""A program that its user left for a while answers again, beside memory bombs.

The program (workloads/editor.c) is like an editor: 80 MB of its own memory, and a file of 20 MB
that it has mapped, on a disk with a time of its own. At each return it touches all of its pages.
What was evicted meanwhile is read back, a page or a few at a time, from devices that the bombs keep
busy. The variants are those of redline/memory-bomb, and memory.low beside memory.min for the
protection by hand. With the kernel's multi-generational LRU memory.low only moves a cgroup to the
tail of the list once; global reclaim then takes its pages too (mm/vmscan.c, shrink_one()).
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.experiment import Profile
from experiments.framework.frames import read_load
from experiments.framework.marks import at_least, at_most
from experiments.framework.memory import (
    BOMB_MB,
    BOMBS,
    GUEST_MB,
    MIN_TTL_MS,
    PROTECT,
    SETTINGS,
    SWAP,
    Variant,
    bombs,
    counted,
    measured,
    of_scheduler,
    pages_a_second,
    program,
)
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN_MB, FILE_MB = 80, 20
IDLE_S, RETURNS = 60, 20
QUICK_IDLE_S, QUICK_RETURNS = 20, 4
SETTLE_S = 4
# A return that takes longer is one of few: only for limits.
SLOW_RETURN_S = 5
LONGEST_MS = 20
DISK = "64M,iops=400,rate=40M"
FILE = "/mnt/disk/document"
RESERVATION = Reservation(5000, 100000)
EDITOR_LINE = f"/job/editor:iact:{RESERVATION}:IR:-:-"
PROTECTED = "110M"
VARIANTS = (
    Variant("plain", "eevdf", "EEVDF, program at nice -20"),
    Variant("low", "eevdf", f"EEVDF, memory.low {PROTECTED}", f"memory.low={PROTECTED}"),
    Variant("min", "eevdf", f"EEVDF, memory.min {PROTECTED}", f"memory.min={PROTECTED}"),
    Variant("ttl", "eevdf", f"EEVDF, min_ttl_ms {MIN_TTL_MS}", f"min_ttl_ms={MIN_TTL_MS}"),
    Variant("be", "aplomb", "aplomb", profile="editor"),
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    idle, returns = (QUICK_IDLE_S, QUICK_RETURNS) if quick else (IDLE_S, RETURNS)
    longest = returns * (idle + SLOW_RETURN_S)
    words = [
        "left",
        FILE,
        FILE_MB,
        SETTLE_S,
        *program(*scheduler.prefix(RESERVATION)),
        "--",
        "/job/editor",
        OWN_MB,
        FILE,
        idle,
        returns,
        "--",
        *bombs(20 * longest),  # they get a signal when the program has ended
    ]
    return [variant.step(words, longest + 20) for variant in of_scheduler(VARIANTS, scheduler)]


def read(folder: Path) -> dict[str, Any]:
    returns = [json.loads(line) for line in (folder / "stdout").read_text().splitlines()]
    load = read_load(folder / "load")
    return {
        "ms": [each["ms"] for each in returns],
        "major_faults": [each["major_faults"] for each in returns],
        "killed": (folder / "killed").exists(),
        "under_bombs": counted(folder, "load", "after"),
        "bomb_pages_per_s": pages_a_second(load, SETTLE_S),
        "load": load,
    }


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for _, sample in measured(VARIANTS, {"aplomb": samples["aplomb"]}):
        marks += [
            at_most("longest return", max(sample["ms"], default=None), LONGEST_MS, "ms"),
            at_most(
                "major faults in a return, most",
                max(sample["major_faults"], default=None),
                0,
                "faults",
            ),
            at_least("the program lives on", int(not sample["killed"]), 1, "program"),
        ]
    return marks


def table(samples: Samples) -> Table:
    rows = []
    for variant, sample in measured(VARIANTS, samples):
        times = sorted(sample["ms"])
        memory = sample["under_bombs"]
        rows.append(
            [
                variant.title + (" (killed)" if sample["killed"] else ""),
                len(times),
                round(statistics.median(times), 3) if times else None,
                times[-1] if times else None,
                max(sample["major_faults"], default=None),
                memory["pswpin"],
                memory["pswpout"],
                memory["allocstall"],
                sample["bomb_pages_per_s"],
                memory["oom_kill"],
            ]
        )
    return [
        "variant",
        "returns",
        "median ms",
        "longest ms",
        "most major faults",
        "pswpin",
        "pswpout",
        "allocstall",
        "bombs' pages/s",
        "OOM kills",
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


EXPERIMENT = Experiment(
    title="A program that was left answers again, beside memory bombs",
    figure="of no paper; Redline, section 8.2, has the bombs",
    about=f"In a guest of {GUEST_MB} MB a program with {OWN_MB} MB of memory and {FILE_MB} MB of a "
    f"mapped file sleeps for {IDLE_S} s and then touches all of its pages, {RETURNS} times; "
    f"{BOMBS} tasks write to each page of {BOMB_MB} MB each, again and again.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles={"editor": Profile((EDITOR_LINE,), config=PROTECT)},
    settings={
        **SETTINGS,
        "disk": DISK,
        "own_mb": OWN_MB,
        "file_mb": FILE_MB,
        "idle_s": IDLE_S,
        "returns": RETURNS,
        "reservation_ms": str(RESERVATION),
        "protected": PROTECTED,
        "bombs_settle_s": SETTLE_S,
    },
    memory_mb=GUEST_MB,
    disks=(DISK,),
    swaps=(SWAP,),
)
