"""Kato Figs. 1, 8 to 12 and 15 to 18: several movies on 4 simulated CPUs, and on more,
under each server policy and placement.

The movies play a recorded trace (framework/traces.py), all the same one, started together, as in
the paper: their hard scenes coincide. It is scaled to the paper's figures, since the machine that
recorded it is another. What counts is the worst movie in each second; the first second, in which
players start, is left out. No frame is dropped: as in the paper, a movie that was late catches up,
so a second can show more frames than its rate.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .experiment import Samples, Study, Table
from .marks import Mark, at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CPUS = 4  # in the paper
# Ours places by EDF-WMR, whatever the server; the models of others place globally.
BOTH = "aplomb-fcbs"
POLICIES = {
    "global-edf-hard": ("CBS hard, global EDF", "#bcbd22"),
    "global-edf-soft": ("CBS soft, global EDF", "#7f7f7f"),
    "global-edf-fcbs": ("FCBS only, global EDF", "#ff7f0e"),
    "aplomb-cbs-soft": ("EDF-WMR only, CBS soft", "#9467bd"),
    BOTH: ("aplomb: FCBS and EDF-WMR", "#1f77b4"),
}


@dataclass(frozen=True)
class Limit:
    """The worst second of the worst movie must have so many frames."""

    movies: int
    fewest: int


def judge(samples: Samples, limits: Sequence[Limit]) -> list[Mark]:
    ours = samples[BOTH]
    return [
        at_least(
            f"{limit.movies} movies, {POLICIES[BOTH][0]}: worst second of the worst movie",
            min(ours[str(limit.movies)]["worst"]),
            limit.fewest,
            "frames",
        )
        for limit in limits
        if str(limit.movies) in ours
    ]


def table(samples: Samples) -> Table:
    rows = []
    for count in samples[BOTH]:
        for policy, steps in samples.items():
            step = steps[count]
            rows.append(
                [
                    int(count),
                    POLICIES[policy][0],
                    step["admitted"],
                    min(step["worst"]),
                    round(statistics.mean(step["worst"]), 2),
                    round(statistics.mean(step["mean"]), 2),
                    round(statistics.mean(step["deviation"]), 2),
                    step["late"],
                ]
            )
    return [
        "movies",
        "policy",
        "admitted",
        "worst second of the worst movie",
        "mean of the worst in each second",
        "mean of all",
        "deviation between movies",
        "frames late",
    ], rows


def draw(samples: Samples, counts: Sequence[int], rate: float, heading: str) -> Figure:
    """The worst movie at each second for each number of movies; below, mean and deviation of the
    most movies."""
    from . import plot

    figure, axes = plot.grid(len(counts) + 1, 1, 8.0, 2.0, sharex=True)
    for policy, steps in samples.items():
        title, colour = POLICIES[policy]
        front = policy == BOTH
        for axis, count in zip(axes, counts):
            line = steps[str(count)]["worst"]
            axis.plot(
                [s + 0.5 for s in range(len(line))],
                line,
                label=title,
                color=colour,
                linewidth=1.8 if front else 1,
                zorder=3 if front else 2,
            )
        last = steps[str(counts[-1])]
        axes[-1].errorbar(
            [s + 0.5 for s in range(len(last["mean"]))],
            last["mean"],
            last["deviation"],
            color=colour,
            linewidth=1,
            elinewidth=0.5,
            zorder=3 if front else 2,
        )
    for axis, count in zip(axes, [*counts, counts[-1]]):
        axis.set_title(
            f"{count} movies: the worst one"
            if axis is not axes[-1]
            else f"{count} movies: average and deviation"
        )
        axis.set_ylim(0, rate * 1.3)
        axis.set_ylabel("frames/s")
    axes[-1].set_xlabel("time (s)")
    figure.suptitle(heading, fontsize=10)
    plot.one_legend(figure, axes, 3)
    return figure


def read(printed: Any) -> Samples:
    """samples[policy][number of movies], of what `aplomb-sim movies` prints; policies that are
    not POLICIES' left out."""
    keys = ("admitted", "worst", "mean", "deviation", "late", "dropped", "migrations")
    samples: dict[str, dict[str, Any]] = {policy: {} for policy in POLICIES}
    for show in printed["shows"]:
        if show["scheduler"] in samples:
            samples[show["scheduler"]][str(show["count"])] = {key: show[key] for key in keys}
    return {policy: steps for policy, steps in samples.items() if steps}


def simulated_movies(
    trace: str,
    kind: str,
    counts: Sequence[int],
    runtime_ms: float,
    period_ms: float,
    rate: float,
    mean_ms: float,
    peak_ms: float,
    limits: Sequence[Limit],
    figure: str,
    cpus: int = CPUS,
) -> Study:
    """The study. mean_ms, peak_ms: what a frame needs on average and at most; the reservation is
    runtime_ms in period_ms."""

    def command(quick: bool) -> list[str]:
        return [
            "movies",
            "--trace",
            f"crates/sim/traces/{trace}.csv",
            "--count",
            ",".join(map(str, counts)),
            "--reserve",
            f"{runtime_ms:g}ms/{period_ms:g}ms",
            "--mean",
            f"{mean_ms:g}ms",
            "--peak",
            f"{peak_ms:g}ms",
            "--together",
            "--length",
            "10s" if quick else "60s",
            *(["--cpus", str(cpus)] if cpus != CPUS else []),
        ]

    heading = (
        f"{kind} movies on {cpus} simulated CPUs, {runtime_ms:g} ms in {period_ms:g} ms "
        "reserved for each"
    )
    return Study(
        title=f"Several {kind} movies on {'four' if cpus == CPUS else cpus} CPUs",
        figure=figure,
        about=f"{', '.join(map(str, counts))} players of a recorded trace on {cpus} simulated "
        f"CPUs, each with {runtime_ms:g} ms in "
        f"{period_ms:g} ms reserved, started together, for 60 s; a frame needs {mean_ms:g} ms "
        f"on average, {peak_ms:g} at most.",
        command=command,
        read=read,
        judge=lambda samples: judge(samples, limits),
        table=table,
        draw=lambda samples: draw(samples, counts, rate, heading),
        subject=BOTH,
    )
