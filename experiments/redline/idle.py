"""What aplomb costs when nothing happens: wake-ups of the daemon, and timers of the kernel side.

The machine idles. The daemon's threads must not run at all (their context switches are counted).
While no interactive task exists, the kernel side must not have a timer (expiries of BPF timers are
counted); for that there are no specifications, since some of the shipped ones match kernel threads,
which always exist. The stock kernel is measured alongside, to show what the counts begin with.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, at_most
from experiments.framework.experiment import Profile
from experiments.framework.results import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SECONDS, QUICK_SECONDS = 60, 10
PROFILES = {"none": Profile(only=True)}
STEPS = {"none": "no specifications", "shipped": "shipped specifications"}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    return [Step(f"idle-{profile}", ["idle", str(seconds)], 5, profile) for profile in STEPS]


def read(folder: Path) -> dict[str, Any]:
    return read_json(folder / "idle.json")


def judge(samples: Samples) -> list[Mark]:
    bare = samples["aplomb"]["idle-none"]
    return [
        at_most(
            f"wake-ups of the daemon in {bare['seconds']} s", bare["daemon_switches"], 0, "switches"
        ),
        at_most(
            f"wake-ups of the daemon in {bare['seconds']} s, with the shipped specifications",
            samples["aplomb"]["idle-shipped"]["daemon_switches"],
            0,
            "switches",
        ),
        at_most(
            f"BPF timers that expired in {bare['seconds']} s while no interactive task exists",
            bare["bpf_timers"],
            0,
            "timers",
        ),
    ]


def rows(samples: Samples) -> list[list[Any]]:
    return [
        [
            STEPS[name.removeprefix("idle-")],
            scheduler,
            s["seconds"],
            s["daemon_switches"],
            s["bpf_timers"],
            s["timers"],
            s["switches"],
        ]
        for scheduler, steps in samples.items()
        for name, s in steps.items()
    ]


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    found = rows(samples)
    figure, (axis,) = plot.grid(1, 1, 6.0, 2.8)
    labels = [
        f"{scheduler},\n{what}" if scheduler == "aplomb" else f"stock, run {number + 1}"
        for number, (what, scheduler, *_) in enumerate(found)
    ]
    series = (("daemon's wake-ups", 3), ("BPF timers", 4), ("all timers", 5), ("all switches", 6))
    for number, (name, at) in enumerate(series):
        axis.barh(
            [i + 0.2 * (1.5 - number) for i in range(len(found))],
            [row[at] / row[2] for row in found],
            0.18,
            label=name,
        )
    axis.set_yticks(range(len(found)), labels)
    axis.set_xlabel("per second")
    figure.suptitle("An idle machine", fontsize=10)
    plot.one_legend(figure, [axis], 4)
    return figure


EXPERIMENT = Experiment(
    title="The cost of doing nothing",
    figure="None of a paper: the cost of aplomb itself",
    about=f"The machine idles for {SECONDS} s; switches of the daemon's threads, expired BPF "
    "timers, all expired timers and "
    "all context switches are counted by the kernel.",
    steps=make,
    read=read,
    judge=judge,
    table=lambda samples: (
        [
            "setting",
            "scheduler",
            "seconds",
            "daemon's wake-ups",
            "BPF timers",
            "all timers",
            "all switches",
        ],
        rows(samples),
    ),
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
)
