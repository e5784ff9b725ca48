"""Kato Figs. 1, 8 to 12 and 15 to 18: several movies on 4 simulated CPUs, under each server policy and placement.

The movies play a recorded trace (framework/traces.py), each from another place. What counts is the worst movie in each
second, as in the paper; the first second, in which players start, is left out.
"""
from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Sequence

from .experiment import Samples, Study, Table
from .marks import Mark, at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOTH = "fcbs+wmr"
POLICIES = {
    "cbs-hard": ("CBS hard, global EDF", "#bcbd22"),
    "cbs-soft": ("CBS soft, global EDF (SCHED_DEADLINE)", "#7f7f7f"),
    "fcbs": ("FCBS only", "#ff7f0e"),
    "wmr": ("EDF-WMR only", "#9467bd"),
    BOTH: ("FCBS + EDF-WMR (aplomb)", "#1f77b4"),
}
LEFT_OUT_S = 1


@dataclass(frozen=True)
class Limit:
    """The worst second of the worst movie must have so many frames."""
    movies: int
    fewest: int


def worst_in_each_second(step: dict[str, Any]) -> list[int]:
    return [min(second) for second in zip(*(movie[LEFT_OUT_S:] for movie in step["frames_per_second"]))]


def mean_in_each_second(step: dict[str, Any]) -> list[tuple[float, float]]:
    """Average over the movies, and its standard deviation."""
    return [(statistics.mean(second), statistics.pstdev(second))
            for second in zip(*(movie[LEFT_OUT_S:] for movie in step["frames_per_second"]))]


def judge(samples: Samples, limits: Sequence[Limit]) -> list[Mark]:
    ours = samples[BOTH]
    return [at_least(f"{limit.movies} movies, {POLICIES[BOTH][0]}: worst second of the worst movie",
                     min(worst_in_each_second(ours[str(limit.movies)])), limit.fewest, "frames")
            for limit in limits if str(limit.movies) in ours]


def table(samples: Samples) -> Table:
    rows = []
    for count in next(iter(samples.values())):
        for policy, steps in samples.items():
            step = steps[count]
            worst, averages = worst_in_each_second(step), mean_in_each_second(step)
            rows.append([int(count), POLICIES[policy][0], min(worst), round(statistics.mean(worst), 2),
                         round(statistics.mean(mean for mean, _ in averages), 2),
                         round(statistics.mean(spread for _, spread in averages), 2), sum(step["dropped"])])
    return ["movies", "policy", "worst second of the worst movie", "mean of the worst movie in each second", "mean of all movies",
            "deviation between movies", "frames dropped"], rows


def draw(samples: Samples, counts: Sequence[int], rate: float, heading: str) -> "Figure":
    """The worst movie at each second for each number of movies; below, mean and deviation of the most movies."""
    from . import plot
    figure, axes = plot.grid(len(counts) + 1, 1, 8.0, 2.0, sharex=True)
    for policy, steps in samples.items():
        title, colour = POLICIES[policy]
        front = policy == BOTH
        for axis, count in zip(axes, counts):
            line = worst_in_each_second(steps[str(count)])
            axis.plot([LEFT_OUT_S + s + 0.5 for s in range(len(line))], line, label=title, color=colour, linewidth=1.8 if front else 1,
                      zorder=3 if front else 2)
        averages = mean_in_each_second(steps[str(counts[-1])])
        axes[-1].errorbar([LEFT_OUT_S + s + 0.5 for s in range(len(averages))], [mean for mean, _ in averages],
                          [spread for _, spread in averages], color=colour, linewidth=1, elinewidth=0.5, zorder=3 if front else 2)
    for axis, count in zip(axes, [*counts, counts[-1]]):
        axis.set_title(f"{count} movies: the worst one" if axis is not axes[-1] else f"{count} movies: average and deviation")
        axis.set_ylim(0, rate * 1.3)
        axis.set_ylabel("frames/s")
    axes[-1].set_xlabel("time (s)")
    figure.suptitle(heading, fontsize=10)
    plot.one_legend(figure, axes, 3)
    return figure


def read(printed: Any) -> Samples:
    """samples[policy][number of movies] of `aplomb sim --study movies`: frames in each second, dropped frames, by movie."""
    return {policy: {str(step["movies"]): {"frames_per_second": step["frames_per_second"], "dropped": step["dropped"]}
                     for step in steps} for policy, steps in printed["policies"].items()}


def simulated_movies(trace: str, kind: str, counts: Sequence[int], runtime_ms: float, period_ms: float, rate: float,
                     limits: Sequence[Limit], figure: str) -> Study:
    def command(quick: bool) -> list[str]:
        return ["sim", "--study", "movies", "--trace", trace, "--movies", ",".join(map(str, counts)), "--cpu",
                f"{runtime_ms:g}ms/{period_ms:g}ms", "--seconds", "10" if quick else "60"]
    heading = f"{kind} movies on 4 simulated CPUs, {runtime_ms:g} ms in {period_ms:g} ms reserved for each"
    return Study(
        title=f"Several {kind} movies on four CPUs", figure=figure,
        about=f"{', '.join(map(str, counts))} players of a recorded trace on 4 simulated CPUs, each with {runtime_ms:g} ms in "
              f"{period_ms:g} ms reserved, for 60 s.",
        command=command, read=read, judge=lambda samples: judge(samples, limits), table=table,
        draw=lambda samples: draw(samples, counts, rate, heading), subject=BOTH)
