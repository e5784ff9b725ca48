"""Of no paper: how often tasks change the cache where their data is, on a machine with two.

The simulator runs the scheduler's source on 2 x 8 CPUs. All tasks are in one domain. A cache miss
is modelled as a turn of a loop beside another cache than its turn before: it reads its data again.
The time that this takes is not played.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.framework import Mark, Samples, Study, Table
from experiments.framework.marks import at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "aplomb"
ONE = "aplomb, all CPUs taken for one cache"
CACHES, EACH = 2, 8
LOOPS = (17, 20, 24, 40)
SECONDS, QUICK_SECONDS = 10, 1
# Of the changes without the rule, with one loop more than CPUs; points of the mean; of the time
# that a sleeper has without the rule.
CHANGES_LIMIT, OFF_LIMIT, SLEEPER_LIMIT = 0.1, 2.0, 0.95


def command(quick: bool) -> list[str]:
    machine = ["--caches", str(CACHES), "--each", str(EACH), "--loops", ",".join(map(str, LOOPS))]
    return ["locality", *machine, "--seconds", str(QUICK_SECONDS if quick else SECONDS)]


def read(printed: Any) -> Samples:
    """samples[scheduler]["LOOPS-SLEEPERS"]"""
    found: dict[str, dict[str, Any]] = {OURS: {}, ONE: {}}
    for run in printed["runs"]:
        found[OURS if run["known"] else ONE][f"{run['loops']}-{run['sleepers']}"] = run
    return found


def judge(samples: Samples) -> list[Mark]:
    ours, one = samples[OURS], samples[ONE]
    alone = [key for key in ours if key.endswith("-0")]
    beside = [key for key in ours if key not in alone]
    first = f"{LOOPS[0]}-0"
    return [
        at_most(
            f"{LOOPS[0]} loops: changes of the cache, of those without the rule",
            round(ours[first]["changes_per_s"] / one[first]["changes_per_s"], 3),
            CHANGES_LIMIT,
            "x",
        ),
        at_most(
            "loops: furthest off their mean, worst number of loops",
            round(max(run["off_percent"] for run in ours.values()), 2),
            OFF_LIMIT,
            "%",
        ),
        at_least(
            "tasks that sleep, beside loops: CPU time, of that without the rule",
            round(min(ours[key]["sleeper_ppm"] / one[key]["sleeper_ppm"] for key in beside), 3),
            SLEEPER_LIMIT,
            "x",
        ),
    ]


def table(samples: Samples) -> Table:
    rows = [
        [
            run["loops"],
            run["sleepers"],
            scheduler,
            round(run["changes_per_s"], 1),
            round(run["changed_ppm"] / 1e4, 2),
            round(run["off_percent"], 2),
            round(run["sleeper_ppm"] / 1e4, 1) if run["sleepers"] else None,
        ]
        for key in samples[OURS]
        for scheduler, run in ((name, samples[name][key]) for name in (OURS, ONE))
    ]
    head = ["loops", "sleepers", "scheduler", "changes/s", "of turns %", "off %", "sleeper %"]
    return head, rows


def draw(samples: Samples) -> Figure:
    """Changes of the cache, over the number of loops."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 2, 3.6, 3.0)
    for axis, title, sleeping in (
        (axes[0], "loops alone", False),
        (axes[1], "beside tasks that sleep", True),
    ):
        for scheduler, dash in ((OURS, "-"), (ONE, ":")):
            runs = [r for r in samples[scheduler].values() if bool(r["sleepers"]) == sleeping]
            axis.plot(
                [run["loops"] for run in runs],
                [run["changed_ppm"] / 1e4 for run in runs],
                dash,
                marker="o",
                markersize=3,
                color=plot.colour(OURS),
                label=scheduler,
            )
        axis.set_xlabel("loops")
        axis.set_title(title)
    axes[0].set_ylabel("turns beside another cache, %")
    plot.one_legend(figure, [axes[0]], 2)
    return figure


EXPERIMENT = Study(
    title="Tasks and their caches",
    figure="no paper",
    about=f"Loops in one domain on {CACHES} caches of {EACH} CPUs, simulated, for {SECONDS} s "
    f"after the first; alone, and beside {CACHES * EACH // 2} tasks that run for 0.5 ms and sleep "
    "for 0.25.",
    command=command,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    subject=OURS,
    settings={"caches": CACHES, "each": EACH, "loops": list(LOOPS), "seconds": SECONDS},
)
