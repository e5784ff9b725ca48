"""Redline Fig. 4(a): what a context switch costs.

Exactly one task is ready at any moment: two processes that pass a byte to each other, and rings of
2 to 96 processes as lmbench's lat_ctx has them (ctxring; lmbench is not in Debian's free archive).
"aplomb EDF" is the same with reservations for all of them, so that each switch goes through the EDF
queue.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_most
from experiments.framework.experiment import Profile
from experiments.framework.marks import below
from experiments.framework.results import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RINGS = (2, 4, 8, 16, 24, 32, 64, 96)
QUICK_RINGS = (2, 16, 96)
SWITCHES, RING_SWITCHES = 20000, 10000
REPEATS = 3
PROFILES = {"edf": Profile(("/job/pingpong:iact:20:100:IR:-:-", "/job/ctxring:iact:5:1000:IR:-:-"))}
SERIES = {"": "", "edf-": " EDF"}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    steps = []
    for prefix, profile in (("", "shipped"), ("edf-", "edf")):
        if prefix and scheduler.name != "aplomb":
            continue
        for repeat in range(1 if quick else REPEATS):
            steps.append(
                Step(
                    f"{prefix}pingpong-{repeat}",
                    ["alone", "/job/pingpong", str(SWITCHES)],
                    2,
                    profile,
                )
            )
        for n in QUICK_RINGS if quick else RINGS:
            steps.append(
                Step(
                    f"{prefix}ring-{n}",
                    ["alone", "/job/ctxring", str(n), str(RING_SWITCHES)],
                    1.5,
                    profile,
                )
            )
    return steps


def read(folder: Path) -> dict[str, Any]:
    return read_json(folder / "stdout")


def pingpong(steps: Mapping[str, Any], prefix: str = "") -> tuple[float, float] | None:
    """Mean microseconds a switch over the repeats, and their spread; None if not measured."""
    values = [
        s["ns_per_switch"] / 1000
        for name, s in steps.items()
        if name.startswith(f"{prefix}pingpong-")
    ]
    return (sum(values) / len(values), max(values) - min(values)) if values else None


def judge(samples: Samples) -> list[Mark]:
    def mean(name: str) -> float | None:
        measured = pingpong(samples.get(name, {}))
        return measured[0] if measured else None

    ours, peer = mean("aplomb"), mean("scx_bpfland")
    return [
        below("pipe ping-pong, a switch, below EEVDF's", ours, mean("eevdf"), "us"),
        at_most(
            "pipe ping-pong, a switch, at most 1.05 x scx_bpfland's",
            ours,
            peer and 1.05 * peer,
            "us",
        ),
    ]


def lines(samples: Samples) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [
        (scheduler, prefix, steps)
        for scheduler, steps in samples.items()
        for prefix in SERIES
        if pingpong(steps, prefix)
    ]


def table(samples: Samples) -> Table:
    rings = [n for n in RINGS if any(f"ring-{n}" in steps for steps in samples.values())]
    rows = [
        [
            scheduler + SERIES[prefix],
            *(pingpong(steps, prefix) or (None, None)),
            *[steps[f"{prefix}ring-{n}"]["ns_per_switch"] / 1000 for n in rings],
        ]
        for scheduler, prefix, steps in lines(samples)
    ]
    return ["scheduler", "ping-pong us", "spread us", *[f"ring {n} us" for n in rings]], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, (axis,) = plot.grid(1, 1, 6.4, 3.6)
    for scheduler, prefix, steps in lines(samples):
        points = [
            (n, steps[f"{prefix}ring-{n}"]["ns_per_switch"] / 1000)
            for n in RINGS
            if f"{prefix}ring-{n}" in steps
        ]
        axis.plot(
            *zip(*points),
            "o--" if prefix else "o-",
            markersize=3,
            color=plot.colour(scheduler),
            label=plot.title(scheduler).split(",")[0] + SERIES[prefix],
        )
    axis.set_ylim(bottom=0)
    axis.set_xlabel("processes in the ring")
    axis.set_ylabel("microseconds a switch")
    figure.suptitle("Context switch time (lat_ctx's method, virtual time)", fontsize=10)
    plot.one_legend(figure, [axis], 3)
    return figure


EXPERIMENT = Experiment(
    title="The cost of a context switch",
    figure="Redline, Fig. 4(a)",
    about=f"Two processes pass a byte through pipes, {SWITCHES} switches, {REPEATS} times; and a "
    "token goes round rings of 2 "
    "to 96 processes, pipe operations taken off. SCHED_DEADLINE has no part: these are ordinary "
    "tasks.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
    profiles=PROFILES,
    settings={"switches": SWITCHES, "ring_switches": RING_SWITCHES, "repeats": REPEATS},
)
