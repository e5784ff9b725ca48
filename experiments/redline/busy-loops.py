"""Redline Fig. 4(b): the total time of a fixed amount of work, split over 1 to 2,000 tasks.

All tasks are ready at any moment. Under aplomb they are ordinary tasks first, then have
reservations of 1:3, 1:30, 1:300 and 1:3000, so that the EDF queue switches about each millisecond.
The paper's runs took 1,400 s and EDF added at most 0.54 %; virtual time repeats so closely that
some seconds do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Samples, Scheduler, Step, Table
from experiments.framework.experiment import Profile
from experiments.framework.results import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TASKS = (1, 20, 200, 2000)
QUICK_TASKS = (1, 200)
LOOPS, QUICK_LOOPS = 600_000_000, 300_000_000
REPEATS = 2
PROFILES = {
    f"edf-{n}": Profile((f"/job/busyloops:iact:1:{period}:IR:-:-",))
    for n, period in zip(TASKS, (3, 30, 300, 3000))
}
SERIES = {"fair": "", "edf": " EDF"}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    steps = []
    for kind in SERIES if scheduler.name == "aplomb" else ["fair"]:
        for n in QUICK_TASKS if quick else TASKS:
            for repeat in range(1 if quick else REPEATS):
                steps.append(
                    Step(
                        f"{kind}-{n}-{repeat}",
                        ["alone", "/job/busyloops", str(n), str(QUICK_LOOPS if quick else LOOPS)],
                        3 if quick else 4,
                        "shipped" if kind == "fair" else f"edf-{n}",
                    )
                )
    return steps


def read(folder: Path) -> dict[str, Any]:
    return read_json(folder / "stdout")


def values(steps: Mapping[str, Any], kind: str, n: int) -> list[float]:
    return [s["seconds"] for name, s in steps.items() if name.startswith(f"{kind}-{n}-")]


def lines(samples: Samples) -> list[tuple[str, str, dict[int, list[float]]]]:
    """(scheduler, kind, {tasks: [seconds]}) for what was measured."""
    found = []
    for scheduler, steps in samples.items():
        for kind in SERIES:
            line = {n: v for n in TASKS if (v := values(steps, kind, n))}
            if line:
                found.append((scheduler, kind, line))
    return found


def table(samples: Samples) -> Table:
    stock: dict[int, list[float]] = next(
        (line for scheduler, kind, line in lines(samples) if scheduler == "eevdf"), {}
    )
    rows: list[list[Any]] = []
    for scheduler, kind, line in lines(samples):
        for n, seconds in line.items():
            mean = sum(seconds) / len(seconds)
            base = sum(stock[n]) / len(stock[n]) if n in stock else None
            rows.append(
                [
                    n,
                    scheduler + SERIES[kind],
                    f"{mean:.4f}",
                    f"{max(seconds) - min(seconds):.4f}",
                    f"{100 * (mean / base - 1):+.2f}" if base else None,
                ]
            )
    rows.sort(key=lambda row: row[0])
    return ["tasks", "scheduler", "seconds", "spread s", "% over EEVDF"], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    found = lines(samples)
    figure, (axis,) = plot.grid(1, 1, 6.4, 3.6)
    width = 0.8 / len(found)
    everything = [value for _, _, line in found for seconds in line.values() for value in seconds]
    for number, (scheduler, kind, line) in enumerate(found):
        means = [sum(seconds) / len(seconds) for seconds in line.values()]
        errors = [(max(seconds) - min(seconds)) / 2 for seconds in line.values()]
        places = [TASKS.index(n) + (number - (len(found) - 1) / 2) * width for n in line]
        axis.bar(
            places,
            means,
            width * 0.9,
            yerr=errors,
            capsize=2,
            color=plot.colour(scheduler),
            hatch="//" if kind == "edf" else None,
            edgecolor="white",
            label=plot.title(scheduler).split(",")[0] + SERIES[kind],
        )
    # The paper's axis begins at 1,300 of 1,400 s, to make the small differences visible; ours
    # likewise.
    axis.set_ylim(0.93 * min(everything), 1.01 * max(everything))
    axis.set_xticks(range(len(TASKS)), [str(n) for n in TASKS])
    axis.set_xlabel("tasks")
    axis.set_ylabel("seconds in all (axis does not begin at 0)")
    figure.suptitle("The same work split over many busy tasks", fontsize=10)
    plot.one_legend(figure, [axis], 3)
    return figure


EXPERIMENT = Experiment(
    title="The same work split over many busy tasks",
    figure="Redline, Fig. 4(b)",
    about=f"{LOOPS:,} turns of an empty loop, split over 1, 20, 200 and 2,000 processes that "
    "start together; the time until "
    "the last one is gone.",
    steps=make,
    read=read,
    judge=lambda samples: [],
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={
        "loops": LOOPS,
        "repeats": REPEATS,
        "edf_reservations_ms": {"1": "1:3", "20": "1:30", "200": "1:300", "2000": "1:3000"},
    },
)
