"""What best-effort work pays: a compilation alone, under stock and under aplomb with its shipped
specifications.

Nothing else runs, so a perfect scheduler costs nothing. The throughput is the stock scheduler's
time divided by ours.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_least

if TYPE_CHECKING:
    from matplotlib.figure import Figure

JOBS = (1, 32)
REPEATS = 2
FLOOR = 0.98
# A part of the source tree, that takes some ten seconds; the whole takes 80, since compilers are
# slow in an emulator.
OBJECTS = (
    "lctype.o lfunc.o lmem.o lobject.o lopcodes.o lstring.o lzio.o linit.o lstate.o ldump.o "
    "ldebug.o ldo.o ltm.o "
    "lundump.o"
)


def compile_with(jobs: int) -> str:
    return (
        "rm -rf /tmp/tree && cp -a /lab/src/lua-*/src /tmp/tree && exec make -C /tmp/tree "
        f"-j{jobs} {OBJECTS}"
    )


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    jobs = JOBS[-1:] if quick else JOBS
    return [
        Step(f"j{n}-{repeat}", ["timed", "sh", "-c", compile_with(n)], 14)
        for n in jobs
        for repeat in range(1 if quick or n == 1 else REPEATS)
    ]


def read(folder: Path) -> dict[str, Any]:
    return {"seconds": float((folder / "seconds").read_text())}


def mean(steps: Mapping[str, Any], jobs: int) -> float | None:
    values = [step["seconds"] for name, step in steps.items() if name.startswith(f"j{jobs}-")]
    return statistics.mean(values) if values else None


def ratio(samples: Samples, scheduler: str, jobs: int) -> float | None:
    stock, other = (mean(samples.get(name, {}), jobs) for name in ("eevdf", scheduler))
    return stock / other if stock and other else None


def judge(samples: Samples) -> list[Mark]:
    return [
        at_least(f"throughput of make -j{jobs} alone, against stock", value, FLOOR, "x")
        for jobs in JOBS
        if (value := ratio(samples, "aplomb", jobs)) or mean(samples["aplomb"], jobs)
    ]


def table(samples: Samples) -> Table:
    return (
        ["make", "scheduler", "seconds", "throughput against EEVDF"],
        [
            [f"-j{jobs}", scheduler, mean(steps, jobs), ratio(samples, scheduler, jobs)]
            for jobs in JOBS
            for scheduler, steps in samples.items()
            if mean(steps, jobs)
        ],
    )


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    jobs = [n for n in JOBS if any(mean(steps, n) for steps in samples.values())]
    figure, (axis,) = plot.grid(1, 1, 5.2, 3.2)
    width = 0.8 / len(samples)
    for number, (scheduler, steps) in enumerate(samples.items()):
        places = [i + (number - (len(samples) - 1) / 2) * width for i in range(len(jobs))]
        axis.bar(
            places,
            [mean(steps, n) or 0 for n in jobs],
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
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    settings={"repeats": REPEATS},
)
