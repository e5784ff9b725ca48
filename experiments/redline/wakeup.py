"""How exact a reservation is: a task of 5 ms every 30 ms against hogs and on-off loads, cyclictest,
and a task that uses more than it reserved.

The task burns 5.0 ms of CPU each period; its reservation is 6:30, for the system calls and wake-ups
around them, and SCHED_DEADLINE has the same. Elsewhere it runs at nice -20. Each process has a
session of its own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import (
    Experiment,
    Mark,
    Reservation,
    Samples,
    Scheduler,
    Step,
    Table,
    at_most,
    between,
)
from experiments.framework.experiment import Profile
from experiments.framework.results import parse_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOADS = {
    "hogs": ("20 hogs", ["/job/hog", "20", "--sessions"]),
    "onoff11": ("16 x (11 ms on, 5 ms off)", ["/job/onoff", "11000", "5000", "16", "--sessions"]),
    "onoff2": ("40 x (2 ms on, 3 ms off)", ["/job/onoff", "2000", "3000", "40", "--sessions"]),
}
RUNTIME_US, PERIOD_US = 5000, 30000
# Fewer: for those whose marks do not need them.
PERIODS, FEWER_PERIODS, QUICK_PERIODS = (
    2000,
    300,
    200,
)
RESERVED = Reservation(6000, 30000)
CYCLE_US, CYCLES, QUICK_CYCLES = 10000, 400, 200
# The first second: cyclictest locks its memory meanwhile, which uses up any budget.
CYCLES_LEFT_OUT = 100
OVER_PERIODS, QUICK_OVER_PERIODS = 500, 200
CYCLIC = Reservation(3000, 10000)  # its main thread, which prints, is in the same reservation
SETTLE_S = 2
PROFILES = {
    "wakeup": Profile(("/job/periodic:iact:6:30:R:-:-", "/usr/bin/cyclictest:iact:3:10:R:-:-"))
}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    periods, cycles, over = (
        (QUICK_PERIODS, QUICK_CYCLES, QUICK_OVER_PERIODS)
        if quick
        else (PERIODS, CYCLES, OVER_PERIODS)
    )
    if not quick and scheduler.name not in ("aplomb", "deadline"):
        periods = FEWER_PERIODS
    steps = []

    def add(
        name: str,
        reservation: Reservation,
        program: Sequence[object],
        load: Sequence[str],
        seconds: float,
    ) -> None:
        words = [
            "loaded",
            "sessions",
            str(SETTLE_S),
            *scheduler.prefix(reservation),
            "--",
            *map(str, program),
            "--",
            *load,
        ]
        steps.append(Step(name, words, seconds + SETTLE_S + 1, "wakeup"))

    for key, (_, load) in LOADS.items():
        add(
            f"periodic-{key}",
            RESERVED,
            ["/job/periodic", RUNTIME_US, PERIOD_US, periods],
            load,
            periods * PERIOD_US / 1e6,
        )
        # cyclictest makes threads that choose their own policy, so SCHED_DEADLINE cannot be given
        # to it.
        if scheduler.name != "deadline":
            add(
                f"cyclictest-{key}",
                CYCLIC,
                ["cyclictest", "-v", "-m", "-i", CYCLE_US, "-l", cycles],
                load,
                cycles * CYCLE_US / 1e6,
            )
    add(
        "over",
        RESERVED,
        ["/job/periodic", RUNTIME_US, PERIOD_US, over, "over"],
        LOADS["hogs"][1],
        over * PERIOD_US / 1e6,
    )
    return steps


def read(folder: Path) -> dict[str, Any]:
    text = (folder / "stdout").read_text()
    if not folder.name.startswith("cyclictest"):
        return parse_json(text, str(folder / "stdout"))
    # With -v, each cycle is a line "THREAD: CYCLE: MICROSECONDS".
    found = [re.fullmatch(r"\s*0:\s*(\d+):\s*(-?\d+)\s*", line) for line in text.splitlines()]
    delays = sorted(int(match[2]) for match in found if match and int(match[1]) >= CYCLES_LEFT_OUT)
    return {
        "mode": "cyclictest",
        "cycles": len(delays),
        "first_cycles_left_out": CYCLES_LEFT_OUT,
        "wakeup_us": {
            "mean": round(sum(delays) / len(delays), 1),
            "p50": delays[len(delays) // 2],
            "p99": delays[len(delays) * 99 // 100],
            "max": delays[-1],
        },
    }


def judge(samples: Samples) -> list[Mark]:
    ours, deadline = samples["aplomb"], samples.get("deadline", {})
    marks = []
    for key, (title, _) in LOADS.items():
        step = f"periodic-{key}"
        marks.append(
            at_most(
                f"deadlines missed, of {ours[step]['periods']} ({title})",
                ours[step]["misses"],
                0,
                "deadlines",
            )
        )
        limit = 2 * deadline[step]["wakeup_us"]["max"] if step in deadline else None
        marks.append(
            at_most(
                f"worst wake-up latency ({title}), at most 2 x SCHED_DEADLINE's",
                ours[step]["wakeup_us"]["max"],
                limit,
                "us",
            )
        )
    marks.append(
        between(
            "share of an over-running task that reserved 20 %, under 20 hogs",
            ours["over"]["share_percent"],
            20.0,
            20.5,
            "%",
        )
    )
    return marks


def table(samples: Samples) -> Table:
    rows = []
    for scheduler, steps in samples.items():
        for key, (title, _) in LOADS.items():
            m = steps[f"periodic-{key}"]
            c = steps.get(f"cyclictest-{key}")
            rows.append(
                [
                    title,
                    scheduler,
                    m["periods"],
                    m["misses"],
                    m["wakeup_us"]["p50"],
                    m["wakeup_us"]["p99"],
                    m["wakeup_us"]["max"],
                    m["response_us"]["max"] / 1000,
                    *([c["wakeup_us"]["p99"], c["wakeup_us"]["max"]] if c else [None, None]),
                    None,
                ]
            )
    rows.sort(key=lambda row: [title for title, _ in LOADS.values()].index(row[0]))
    rows += [
        ["20 hogs, the task never stops", scheduler, *[None] * 8, steps["over"]["share_percent"]]
        for scheduler, steps in samples.items()
        if "over" in steps
    ]
    return [
        "load",
        "scheduler",
        "periods",
        "missed",
        "wake-up us p50",
        "p99",
        "max",
        "response ms max",
        "cyclictest us p99",
        "cyclictest max",
        "share %",
    ], rows


def draw(samples: Samples) -> Figure:
    """For each load the part of wake-ups that took longer than so long."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 3, 3.6, 3.0, sharey=True)
    for axis, (key, (title, _)) in zip(axes, LOADS.items()):
        for scheduler, steps in samples.items():
            m = steps.get(f"periodic-{key}")
            if not m:
                continue
            label = plot.title(scheduler).replace("player", "task")
            plot.exceeding(axis, scheduler, m["jobs"], m["wakeup_us"]["below_us"], label)
        axis.set_title(title)
        axis.axvline(PERIOD_US, color="black", linewidth=0.6, linestyle=":")
    axes[0].set_ylabel("part of wake-ups that took longer")
    figure.suptitle(
        "Wake-up latency of a task of 5 ms every 30 ms (dotted: its period)", fontsize=10
    )
    plot.one_legend(figure, axes, 3)
    return figure


EXPERIMENT = Experiment(
    title="Wake-ups and deadlines of a task of 5 ms every 30 ms",
    figure="Redline, section 8.1",
    about=f"A periodic task of 5:30 runs {PERIODS} periods (under EEVDF, bpfland and lavd "
    f"{FEWER_PERIODS}) against 20 infinite loops and against both on-off loads, each "
    "process in a session of its own; and cyclictest; and a task that never stops, with 20 % "
    "reserved.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    profiles=PROFILES,
    quick_schedulers=("eevdf", "aplomb"),
    settings={
        "periods": PERIODS,
        "reservation_ms": str(RESERVED),
        "cyclictest_reservation_ms": str(CYCLIC),
        "timer_slack": "none asked for by the task, as SCHED_DEADLINE has none",
    },
)
