"""How late tasks wake up while others want more memory than there is.

Two tasks, each beside four bombs that want 1.2 times the guest's memory, each in steps of its own
so that neither delays the other: a reserved one of 5 ms every 30 ms (workloads periodic), and an
ordinary one that nothing is said about (workloads sleeper): it works for 1 ms, then sleeps for 50.
Both start some seconds after the bombs, when memory is used up. A wake-up is late because other
tasks run, because the kernel reclaims memory in between, or because the page with the next
instruction has been evicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.beside import by_hand
from experiments.framework.experiment import Profile
from experiments.framework.frames import read_load
from experiments.framework.marks import at_most
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
from experiments.framework.results import parse_json
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTLE_S = 4
SECONDS, QUICK_SECONDS = 60, 20
RUNTIME_US, PERIOD_US = 5000, 30000
ON_US, OFF_US = 1000, 50000
# For the system calls and wake-ups around the 5 ms, as in redline/wakeup.
RESERVED = Reservation(6000, PERIOD_US)
LINE = f"/job/periodic:iact:{RESERVED}:IR:-:-"
PROTECTED = "16M"
RESERVED_P99_US = 1000
OTHER_PART = 0.5  # of stock's
STOCK, OURS = "plain", "be"
HAND = by_hand(PROTECTED, "task at nice -20")
LAYERS = (
    Variant("off", "aplomb", "aplomb, memory not protected", profile="unprotected"),
    Variant(OURS, "aplomb", "aplomb", profile="periodic"),
)


@dataclass(frozen=True)
class Task:
    """A task whose wake-ups are measured. distribution: the field of what it prints."""

    name: str
    title: str
    distribution: str
    variants: tuple[Variant, ...]


RESERVED_TASK = Task("reserved", "5 ms every 30 ms", "wakeup_us", (*HAND, *LAYERS))
# No memory.min: it is what an administrator sets for a program that matters.
OTHER_TASK = Task(
    "other",
    "an ordinary task, 1 ms on, 50 ms off",
    "delay_us",
    (Variant(STOCK, "eevdf", "EEVDF, nice 0"), HAND[-1], *LAYERS),
)
TASKS = (RESERVED_TASK, OTHER_TASK)


def named(task: Task) -> list[Variant]:
    """The variants, as steps of that task."""
    return [
        Variant(f"{task.name}-{v.name}", v.scheduler, v.title, v.knob, v.profile)
        for v in task.variants
    ]


def words_of(task: Task, scheduler: Scheduler, seconds: int) -> Sequence[object]:
    if task is OTHER_TASK:
        return ["--", "/job/sleeper", ON_US, OFF_US, seconds]
    periods = seconds * 1_000_000 // PERIOD_US
    prefix = program(*scheduler.prefix(RESERVED))
    return [*prefix, "--", "/job/periodic", RUNTIME_US, PERIOD_US, periods]


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    return [
        variant.step(
            [
                "after_load",
                SETTLE_S,
                *words_of(task, scheduler, seconds),
                "--",
                *bombs(20 * seconds),  # they get a signal when the task has ended
            ],
            seconds + SETTLE_S + 20,
        )
        for task in TASKS
        for variant in of_scheduler(named(task), scheduler)
    ]


def read(folder: Path) -> dict[str, Any]:
    printed = parse_json((folder / "stdout").read_text(), str(folder / "stdout"))
    found = next(printed[task.distribution] for task in TASKS if task.distribution in printed)
    load = read_load(folder / "load")
    return {
        "wake_ups": printed.get("jobs") or printed.get("sleeps"),
        "misses": printed.get("misses"),
        "wake_up_us": {name: found[name] for name in ("mean", "p99", "max")},
        "under_bombs": counted(folder, "load", "after"),
        "bomb_pages_per_s": pages_a_second(load, SETTLE_S),
        "killed": (folder / "killed").exists(),
    }


def p99(samples: Samples, scheduler: str, step: str) -> float | None:
    sample = samples.get(scheduler, {}).get(step)
    return sample["wake_up_us"]["p99"] if sample else None


def judge(samples: Samples) -> list[Mark]:
    stock = p99(samples, "eevdf", f"{OTHER_TASK.name}-{STOCK}")
    return [
        at_most(
            f"wake-up latency, 99th percentile: {RESERVED_TASK.title}",
            p99(samples, "aplomb", f"{RESERVED_TASK.name}-{OURS}"),
            RESERVED_P99_US,
            "us",
        ),
        at_most(
            f"wake-up latency, 99th percentile: {OTHER_TASK.title}; {OTHER_PART} of stock's",
            p99(samples, "aplomb", f"{OTHER_TASK.name}-{OURS}"),
            OTHER_PART * stock if stock else None,
            "us",
        ),
    ]


def table(samples: Samples) -> Table:
    rows = []
    for task in TASKS:
        for variant, sample in measured(named(task), samples):
            memory, late = sample["under_bombs"], sample["wake_up_us"]
            rows.append(
                [
                    task.title,
                    variant.title,
                    sample["wake_ups"],
                    late["mean"],
                    late["p99"],
                    late["max"],
                    sample["misses"],
                    memory["pswpin"],
                    memory["pswpout"],
                    memory["allocstall"],
                    sample["bomb_pages_per_s"],
                ]
            )
    return [
        "task",
        "variant",
        "wake-ups",
        "mean us",
        "p99 us",
        "max us",
        "periods missed",
        "pswpin",
        "pswpout",
        "allocstall",
        "bombs' pages/s",
    ], rows


def draw(samples: Samples) -> Figure:
    """Mean, 99th percentile and most of each variant, a panel for each task."""
    from experiments.framework import plot

    figure, axes = plot.grid(len(TASKS), 1, 6.4, 2.2, sharex=True)
    for axis, task in zip(axes, TASKS):
        found = list(measured(named(task), samples))
        for row, (variant, sample) in enumerate(found):
            late, colour = sample["wake_up_us"], plot.colour(variant.scheduler)
            axis.plot([late["mean"], late["max"]], [row, row], color=colour, linewidth=1)
            for name, marker in (("mean", "o"), ("p99", "D"), ("max", "|")):
                axis.plot(
                    [late[name]], [row], marker, color=colour, label=name if not row else None
                )
        axis.set_xscale("log")
        axis.set_yticks(range(len(found)), [variant.title for variant, _ in found], fontsize=8)
        axis.set_ylim(len(found) - 0.5, -0.5)
        axis.set_title(task.title, loc="left")
    axes[0].axvline(RESERVED_P99_US, color="#000000", linewidth=0.8, linestyle=":")
    axes[-1].set_xlabel("wake-up latency (us)")
    figure.suptitle(f"Wake-ups beside {BOMBS} memory bombs of {BOMB_MB} MB each", fontsize=10)
    plot.one_legend(figure, [axes[0]], 3)
    return figure


EXPERIMENT = Experiment(
    title="Wake-ups while others want more memory than there is",
    figure="of no paper",
    about=f"In a guest of {GUEST_MB} MB, {BOMBS} tasks write to each page of {BOMB_MB} MB each, "
    f"again and again. After {SETTLE_S} s a task of {RUNTIME_US // 1000} ms every "
    f"{PERIOD_US // 1000} ms starts, or one that works for {ON_US // 1000} ms and sleeps for "
    f"{OFF_US // 1000} ms; how late they wake up is measured for {SECONDS} s.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles={"periodic": Profile((LINE,), config=PROTECT), "unprotected": Profile((LINE,))},
    settings={
        **SETTINGS,
        "seconds": SECONDS,
        "bombs_settle_s": SETTLE_S,
        "reservation_ms": str(RESERVED),
        "protected": PROTECTED,
        "min_ttl_ms": MIN_TTL_MS,
    },
    memory_mb=GUEST_MB,
    swaps=(SWAP,),
)
