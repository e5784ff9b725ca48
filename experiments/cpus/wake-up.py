"""Of no paper: wake-ups beside work that matters little, and of a short period beside loads.

An ordinary task beside one loop of SCHED_IDLE or of nice 19. The loop is to run when the task has
nothing to do, so the task should preempt it at once. And a reservation of 0.4 ms every
2.667 ms, which is a page of 128 samples of sound, beside loads that come and go.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    at_least,
    at_most,
)
from experiments.framework.experiment import Profile
from experiments.framework.results import parse_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIGHT = {
    "idle": ("one loop of SCHED_IDLE", ["chrt", "-i", "0", "/job/hog", "1"]),
    "nice-19": ("one loop of nice 19", ["nice", "-n", "19", "/job/hog", "1"]),
}
# An ordinary task, us
WORK_US, EVERY_US = 1000, 10000
TIMES, QUICK_TIMES = 2000, 200
# The task that never stops: what it has of the CPU
SHARE_PERIODS, QUICK_SHARE_PERIODS = 1000, 200
# The reserved one: what it uses is a little less, for its system calls and wake-ups
SOUND = Reservation(400, 2667)
SOUND_US, SOUND_TIMES, QUICK_SOUND_TIMES = 300, 10000, 1000
LOADS = ["/job/onoff", "7000", "9000", "12", "--sessions"]
SETTLE_S = 1
LIMIT_US, LIMIT_PERCENT, LIMIT_FACTOR = 100, 99.0, 1.5
PROFILES = {"sound": Profile((f"/job/periodic:iact:{SOUND}:R:-:-",))}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    times = QUICK_TIMES if quick else TIMES
    share = QUICK_SHARE_PERIODS if quick else SHARE_PERIODS
    sound = QUICK_SOUND_TIMES if quick else SOUND_TIMES
    steps = []
    if scheduler.name != "deadline":  # it is for reserved tasks
        for key, (_, load) in LIGHT.items():
            start = ["loaded", "one", str(SETTLE_S), "--", "/job/periodic"]
            ordinary = [str(WORK_US), str(EVERY_US), str(times)]
            steps.append(
                Step(f"wake-up-{key}", [*start, *ordinary, "--", *load], times * EVERY_US / 1e6 + 2)
            )
            never_stops = [str(WORK_US), str(EVERY_US), str(share), "over"]
            steps.append(
                Step(
                    f"share-{key}", [*start, *never_stops, "--", *load], share * EVERY_US / 1e6 + 2
                )
            )
    words = [
        "loaded",
        "sessions",
        str(SETTLE_S),
        *scheduler.prefix(SOUND),
        "--",
        "/job/periodic",
        str(SOUND_US),
        str(SOUND.period_us),
        str(sound),
        "--",
        *LOADS,
    ]
    steps.append(Step("sound", words, sound * SOUND.period_us / 1e6 + 2, "sound"))
    return steps


def read(folder: Path) -> Mapping[str, Any]:
    return parse_json((folder / "stdout").read_text(), str(folder / "stdout"))


def judge(samples: Samples) -> list[Mark]:
    ours, stock = samples["aplomb"], samples.get("eevdf", {})
    deadline = samples.get("deadline", {}).get("sound")
    other = stock.get("wake-up-nice-19")
    return [
        at_most(
            f"worst wake-up of {ours['wake-up-idle']['periods']} beside {LIGHT['idle'][0]}",
            ours["wake-up-idle"]["wakeup_us"]["max"],
            LIMIT_US,
            "us",
        ),
        at_least(
            f"share of a loop beside {LIGHT['idle'][0]}",
            ours["share-idle"]["share_percent"],
            LIMIT_PERCENT,
            "%",
        ),
        at_most(
            f"worst wake-up beside {LIGHT['nice-19'][0]}, at most EEVDF's",
            ours["wake-up-nice-19"]["wakeup_us"]["max"],
            other["wakeup_us"]["max"] if other else None,
            "us",
        ),
        at_most(
            f"worst wake-up of {ours['sound']['periods']}, reserved {SOUND} ms, at most "
            f"{LIMIT_FACTOR} x SCHED_DEADLINE's",
            ours["sound"]["wakeup_us"]["max"],
            LIMIT_FACTOR * deadline["wakeup_us"]["max"] if deadline else None,
            "us",
        ),
    ]


def table(samples: Samples) -> Table:
    titles = {key: f"beside {title}" for key, (title, _) in LIGHT.items()}
    rows: list[list[object]] = []
    for key, title in titles.items():
        for scheduler, steps in samples.items():
            if m := steps.get(f"wake-up-{key}"):
                w = m["wakeup_us"]
                share = steps[f"share-{key}"]["share_percent"]
                rows.append([title, scheduler, w["p50"], w["p99"], w["max"], m["misses"], share])
    for scheduler, steps in samples.items():
        m = steps["sound"]
        w = m["wakeup_us"]
        title = f"reserved {SOUND} ms beside loads"
        rows.append([title, scheduler, w["p50"], w["p99"], w["max"], m["misses"], None])
    return [
        "task",
        "scheduler",
        "wake-up us p50",
        "p99",
        "max",
        "missed",
        "share of a loop %",
    ], rows


def draw(samples: Samples) -> Figure:
    """The part of wake-ups that took longer than so long."""
    from experiments.framework import plot

    panels = {f"wake-up-{key}": f"beside {title}" for key, (title, _) in LIGHT.items()}
    panels["sound"] = f"reserved {SOUND} ms beside loads"
    figure, axes = plot.grid(1, len(panels), 3.6, 3.0, sharey=True)
    for axis, (step, title) in zip(axes, panels.items(), strict=True):
        for scheduler, steps in samples.items():
            if m := steps.get(step):
                label = plot.title(scheduler).split(",")[0]
                plot.exceeding(axis, scheduler, m["jobs"], m["wakeup_us"]["below_us"], label)
        axis.set_title(title)
    axes[0].set_ylabel("part of wake-ups that took longer")
    plot.one_legend(figure, axes, 3)
    return figure


EXPERIMENT = Experiment(
    title="Wake-ups beside light loops, and of a short period",
    figure="no paper",
    about=f"A task of {WORK_US / 1000:g} ms every {EVERY_US / 1000:g} ms, and a loop, each beside "
    f"one loop of SCHED_IDLE and one of nice 19; and a task of {SOUND_US / 1000:g} ms with "
    f"{SOUND} ms reserved beside 12 loads that run for 7 ms and sleep for 9 ms.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    profiles=PROFILES,
    settings={"times": TIMES, "sound_times": SOUND_TIMES, "reservation_ms": str(SOUND)},
)
