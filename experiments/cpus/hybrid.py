"""Of no paper: a machine of fast and slow CPUs, whose capacities the scheduler knows or does not.

The simulator runs the scheduler's source on 6 fast CPUs and 8 slow ones, as in a notebook; a slow
CPU does 600/1024 of the work. A task of the simulator has work to do, so it takes longer there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import Mark, Samples, Study, Table
from experiments.framework.marks import at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "aplomb"
ALIKE = "aplomb, all CPUs alike"
FAST, SLOW, CAPACITY = 6, 8, 600
SECONDS, QUICK_SECONDS = 20, 2
CASES = {
    "frames": "5 ms of each 16 reserved, beside loops",
    "guaranteed": "the same, guaranteed",
    "keys": "ordinary wake-ups, beside background loops",
    "loops": "loops that are left when others end",
}
# Of the time on a fast CPU; and what a fast CPU does, %.
RESPONSE_LIMIT, WORK_LIMIT = 1.05, 98.0


def command(quick: bool) -> list[str]:
    machine = ["--fast", str(FAST), "--slow", str(SLOW), "--capacity", str(CAPACITY)]
    return ["hybrid", *machine, "--seconds", str(QUICK_SECONDS if quick else SECONDS)]


def read(printed: Any) -> Samples:
    """samples[scheduler][case]"""
    found: dict[str, dict[str, Any]] = {OURS: {}, ALIKE: {}}
    for run in printed["runs"]:
        found[OURS if run["known"] else ALIKE][run["case"]] = run
    return found


def missed_percent(run: Mapping[str, Any]) -> float:
    return round(100 * run["missed"] / run["jobs"], 2) if run["jobs"] else 100.0


def judge(samples: Samples) -> list[Mark]:
    runs = samples[OURS]
    return [
        *(
            at_most(f"{CASES[case]}: late", missed_percent(runs[case]), 0, "%")
            for case in ("frames", "guaranteed")
        ),
        at_most(
            f"{CASES['keys']}: response, of that on a fast CPU",
            round(runs["keys"]["response"], 3),
            RESPONSE_LIMIT,
            "x",
        ),
        at_least(
            f"{CASES['loops']}: work, of what fast CPUs do",
            round(runs["loops"]["work_ppm"] / 1e4, 2),
            WORK_LIMIT,
            "%",
        ),
    ]


def table(samples: Samples) -> Table:
    rows: list[list[Any]] = []
    for case, title in CASES.items():
        for scheduler in (OURS, ALIKE):
            run = samples[scheduler][case]
            jobs = case != "loops"
            rows.append(
                [
                    title,
                    scheduler,
                    run["jobs"] if jobs else None,
                    missed_percent(run) if jobs else None,
                    round(run["response"], 2) if jobs else None,
                    None if jobs else round(run["work_ppm"] / 1e4, 1),
                ]
            )
    return ["programs", "scheduler", "jobs", "late %", "response x", "work %"], rows


def draw(samples: Samples) -> Figure:
    """Late jobs, response and work, with the capacities known and not."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 3, 2.8, 3.0)
    panels: tuple[tuple[str, dict[str, Callable[[Mapping[str, Any]], float]]], ...] = (
        ("late jobs, %", dict.fromkeys(("frames", "guaranteed"), missed_percent)),
        ("response, of a fast CPU's", {"keys": lambda run: run["response"]}),
        ("work, % of fast CPUs'", {"loops": lambda run: run["work_ppm"] / 1e4}),
    )
    for axis, (title, cases) in zip(axes, panels, strict=True):
        for at, scheduler in enumerate((OURS, ALIKE)):
            axis.bar(
                [place + 0.4 * at for place in range(len(cases))],
                [value(samples[scheduler][case]) for case, value in cases.items()],
                0.38,
                color=plot.colour(OURS),
                alpha=1.0 if scheduler == OURS else 0.4,
                label=scheduler,
            )
        axis.set_xticks([place + 0.2 for place in range(len(cases))], list(cases))
        axis.set_title(title)
    plot.one_legend(figure, [axes[0]], 2)
    return figure


EXPERIMENT = Study(
    title="Fast and slow CPUs",
    figure="no paper",
    about=f"{FAST} fast CPUs and {SLOW} slow ones of {CAPACITY}/1024, simulated, for {SECONDS} s "
    "after the first second: with the capacities known to the scheduler, and with all CPUs taken "
    "for alike.",
    command=command,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    subject=OURS,
    settings={"fast": FAST, "slow": SLOW, "capacity": CAPACITY, "seconds": SECONDS},
)
