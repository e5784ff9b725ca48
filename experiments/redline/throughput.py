"""What best-effort work pays: a compilation alone, under stock and under aplomb with its shipped
specifications.

Nothing else runs, so a perfect scheduler costs nothing. The throughput is the stock scheduler's
time divided by ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_least
from experiments.framework.programs import compile_with, mean, rate, read_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JOBS = (1, 32)
REPEATS = 2
FLOOR = 0.98


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    jobs = JOBS[-1:] if quick else JOBS
    return [
        Step(f"j{n}-{repeat}", ["timed", "sh", "-c", compile_with(n)], 14)
        for n in jobs
        for repeat in range(1 if quick or n == 1 else REPEATS)
    ]


def judge(samples: Samples) -> list[Mark]:
    return [
        at_least(f"throughput of make -j{jobs} alone, against stock", value, FLOOR, "x")
        for jobs in JOBS
        if (value := rate(samples, "aplomb", f"j{jobs}")) or mean(samples["aplomb"], f"j{jobs}")
    ]


def table(samples: Samples) -> Table:
    return (
        ["make", "scheduler", "seconds", "throughput against EEVDF"],
        [
            [
                f"-j{jobs}",
                scheduler,
                mean(steps, f"j{jobs}"),
                rate(samples, scheduler, f"j{jobs}"),
            ]
            for jobs in JOBS
            for scheduler, steps in samples.items()
            if mean(steps, f"j{jobs}")
        ],
    )


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    jobs = [n for n in JOBS if any(mean(steps, f"j{n}") for steps in samples.values())]
    figure, (axis,) = plot.grid(1, 1, 5.2, 3.2)
    width = 0.8 / len(samples)
    for number, (scheduler, steps) in enumerate(samples.items()):
        places = [i + (number - (len(samples) - 1) / 2) * width for i in range(len(jobs))]
        axis.bar(
            places,
            [mean(steps, f"j{n}") or 0 for n in jobs],
            width * 0.9,
            color=plot.colour(scheduler),
            label=plot.title(scheduler).split(",")[0],
        )
    axis.set_xticks(range(len(jobs)), [f"make -j{n}" for n in jobs])
    axis.set_ylabel("seconds")
    figure.suptitle("A compilation alone", fontsize=10)
    plot.one_legend(figure, [axis], 4)
    return figure


EXPERIMENT = Experiment(
    title="Throughput of a compilation alone",
    figure="None of a paper: the cost of aplomb itself",
    about=f"Part of a source tree is compiled from a tmpfs, with 1 job, and {REPEATS} times "
    f"with {JOBS[-1]}; nothing else runs.",
    steps=make,
    read=read_seconds,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    settings={"repeats": REPEATS},
)
