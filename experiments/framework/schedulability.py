"""Kato Figs. 21 to 23: which part of random task sets is scheduled without a missed deadline, as
the workload grows.

A set's tasks have utilisations drawn evenly from a range, until the workload (their sum over the
number of CPUs) is reached, and periods drawn evenly from 1 to 100 ms. A set succeeds if no job
misses its deadline in the simulated time; under ours, which admits, it must have been accepted
whole as well. The columns test-* count the sets that a test vouches for on paper, without
simulating them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .experiment import Samples, Study, Table
from .marks import Mark, at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "aplomb"
# Colours as the other pictures have them: ours blue, SCHED_DEADLINE's policy grey.
POLICIES = {
    OURS: ("aplomb (EDF-WMR)", "#1f77b4", "-"),
    "test-wm": ("test of EDF-WM", "#1f77b4", ":"),
    "global-edf-soft": ("global EDF", "#7f7f7f", "-"),
    "test-global": ("test of global EDF", "#7f7f7f", ":"),
    "partitioned-ff": ("partitioned EDF, first-fit", "#ff7f0e", "-"),
    "test-ff": ("test of first-fit", "#ff7f0e", ":"),
    "partitioned-wf": ("partitioned EDF, worst-fit", "#9467bd", "-"),
    "test-wf": ("test of worst-fit", "#9467bd", ":"),
}
OTHERS = ("global-edf-soft", "partitioned-ff", "partitioned-wf")
FURTHER_RIGHT = 5  # points of workload, in %
MARGIN = "50us"  # what each task reserves more than it needs
CPUS = 4  # in the paper
SETS = 1000


def ratio(point: Mapping[str, Any]) -> float:
    return float(point["succeeded"] / point["sets"])


def curve(points: Mapping[str, Mapping[str, Any]]) -> list[tuple[float, float]]:
    """Workload in % and success ratio, by workload."""
    return sorted((float(workload), ratio(point)) for workload, point in points.items())


def half_point(points: Mapping[str, Mapping[str, Any]]) -> float | None:
    """The workload in % where the curve falls through a half, between points by a straight line;
    None if it does not."""
    line = curve(points)
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        if y0 >= 0.5 > y1:
            return x0 + (x1 - x0) * (y0 - 0.5) / (y0 - y1)
    return None


def judge(samples: Samples, far: bool) -> list[Mark]:
    """far: the half point must be further right than every other policy's."""
    ours = samples[OURS]
    marks = [
        at_most(
            "sets that admission accepted and that missed a deadline",
            sum(point["accepted_missed"] for point in ours.values()),
            0,
            "sets",
            f"of {sum(point['accepted'] for point in ours.values())} accepted",
        )
    ]
    for other in OTHERS:
        points = samples.get(other)
        worst = (
            min((ratio(ours[w]) - ratio(points[w]) for w in ours), default=None) if points else None
        )
        marks.append(
            at_least(
                f"success ratio at every point, above that of {POLICIES[other][0]} by", worst, 0, ""
            )
        )
    if far:
        right = half_point(ours)
        others = [
            half
            for other in OTHERS
            if other in samples and (half := half_point(samples[other])) is not None
        ]
        value = right - max(others) if right is not None and others else None
        marks.append(
            at_least(
                "half point of the curve, further right than the best other by",
                value,
                FURTHER_RIGHT,
                "% of workload",
            )
        )
    return marks


def table(samples: Samples) -> Table:
    present = [name for name in POLICIES if name in samples]
    rows = [
        [
            float(workload),
            point["sets"],
            *[round(ratio(samples[name][workload]), 3) for name in present],
        ]
        for workload, point in samples[OURS].items()
    ]
    return ["workload %", "sets", *[POLICIES[name][0] for name in present]], rows


def draw(samples: Samples, heading: str, cpus: int) -> Figure:
    from . import plot

    figure, (axis,) = plot.grid(1, 1, 5.6, 3.4)
    for name, (title, colour, dash) in POLICIES.items():
        if name in samples:
            axis.plot(
                *zip(*curve(samples[name])),
                dash,
                marker="o" if dash == "-" else None,
                markersize=2.5,
                label=title,
                color=colour,
                linewidth=2 if name == OURS else 1.3,
            )
    axis.axhline(0.5, color="black", linewidth=0.6, linestyle=":")
    axis.set_xlabel(f"workload (% of {cpus} CPUs)")
    axis.set_ylabel("success ratio")
    axis.set_ylim(-0.03, 1.03)
    figure.suptitle(heading, fontsize=10)
    plot.one_legend(figure, [axis], 2)
    return figure


def read(printed: Any) -> Samples:
    """samples[column][workload in %], of what `aplomb-sim schedulability` prints for one
    range."""
    samples: dict[str, dict[str, Any]] = {}
    for point in printed["points"]:
        for column, tally in zip(printed["columns"], point["tallies"], strict=True):
            column = (
                OURS if column.startswith("aplomb") else column
            )  # it is called by its server policy
            samples.setdefault(column, {})[str(point["workload_percent"])] = {
                "sets": printed["sets"],
                "succeeded": tally["met"],
                "accepted": tally["met"] + len(tally["missed"]),
                "accepted_missed": len(tally["missed"]),
                "seeds_missed": tally["missed"][:10],
            }
    return samples


def schedulability(low: int, high: int, figure: str, cpus: int = CPUS, sets: int = SETS) -> Study:
    """The study for tasks of low to high % of a CPU: that many sets for each workload."""

    def command(quick: bool) -> list[str]:
        words = ["schedulability", "--range", f"{low}-{high}", "--margin", MARGIN]
        if cpus != CPUS:
            words += ["--cpus", str(cpus)]
        return words + (
            ["--sets", "10", "--length", "2s", "--workload", "50,65,80,95"]
            if quick
            else [
                "--sets",
                os.environ.get("APLOMB_STUDY_SETS", str(sets)),
                "--length",
                "60s",
                "--workload",
                ",".join(map(str, range(50, 101, 5))),
            ]
        )

    heading = f"Task sets without a missed deadline: tasks of {low} to {high} % on {cpus} CPUs"
    return Study(
        title=f"Hard deadlines, tasks of {low} to {high} %"
        + (f", {cpus} CPUs" if cpus != CPUS else ""),
        figure=figure,
        about=f"Random sets of periodic tasks on {cpus} simulated CPUs, {sets} sets for each "
        "workload from 50 to 100 %, 60 s each; "
        f"each task needs {low} to {high} % of a CPU, its period is 1 to 100 ms. It reserves "
        f"{MARGIN} more than it needs, "
        "under each scheduler: in the simulator a kick of ours takes 1 us, the models' nothing. "
        "Fewer sets: "
        "APLOMB_STUDY_SETS.",
        command=command,
        read=read,
        judge=lambda samples: judge(samples, low == 50),
        table=table,
        draw=lambda samples: draw(samples, heading, cpus),
        subject=OURS,
    )
