"""Of no paper: shares by weight of two domains on 16 to 256 simulated CPUs.

The simulator runs the scheduler's source. Each domain has more tasks than its share: a loop for
each CPU, or two tasks for each CPU that run for 3 ms and sleep for 1 ms. cpus/shares-4 and shares-8
are the same in a kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from experiments.framework import Mark, Samples, Study, Table
from experiments.framework.marks import at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "aplomb"
CPUS = (16, 64, 256)
QUICK_CPUS = (16, 256)
RATIOS = (1, 2, 4, 9)
SECONDS, QUICK_SECONDS = 10, 1
KINDS = {"loops": "loops", "sleepers": "tasks that sleep now and then"}
# Points: percent of all CPUs.
LIMIT, SECOND_LIMIT = 1.0, 3.0


def command(quick: bool) -> list[str]:
    cpus = ",".join(map(str, QUICK_CPUS if quick else CPUS))
    ratios = ",".join(map(str, RATIOS))
    seconds = str(QUICK_SECONDS if quick else SECONDS)
    return ["shares", "--cpus", cpus, "--ratios", ratios, "--seconds", seconds]


def read(printed: Any) -> Samples:
    """samples["aplomb"]["KIND-CPUS-RATIO"]"""
    return {OURS: {f"{run['kind']}-{run['cpus']}-{run['ratio']}": run for run in printed["runs"]}}


def worst(samples: Samples, kind: str, cpus: int, key: str) -> float | None:
    runs = samples[OURS].values()
    found = [abs(run[key]) for run in runs if (run["kind"], run["cpus"]) == (kind, cpus)]
    return round(max(found), 3) if found else None


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for kind, title in KINDS.items():
        for cpus in CPUS:
            for key, when, limit in (
                ("off", f"over {SECONDS} s", LIMIT),
                ("second_off", "in the worst second", SECOND_LIMIT),
            ):
                marks.append(
                    at_most(
                        f"{cpus} CPUs, {title}: off the share, worst weights, {when}",
                        worst(samples, kind, cpus, key),
                        limit,
                        "points",
                    )
                )
    return marks


def table(samples: Samples) -> Table:
    rows = [
        [
            KINDS[run["kind"]],
            run["cpus"],
            f"1:{run['ratio']}",
            100 / (1 + run["ratio"]),
            round(run["off"], 3),
            round(run["second_off"], 3),
            run["used_ppm"] / 1e4,
        ]
        for run in samples[OURS].values()
    ]
    return ["tasks", "CPUs", "weights", "first is due %", "off", "worst second", "used %"], rows


def draw(samples: Samples) -> Figure:
    """By how many points the first domain is off, over the number of CPUs."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 2, 4.2, 3.2)
    runs = samples[OURS].values()
    for axis, (kind, title) in zip(axes, KINDS.items(), strict=True):
        for key, label, dash in (("off", "over all", "-"), ("second_off", "worst second", ":")):
            for ratio in RATIOS:
                of = [run for run in runs if (run["kind"], run["ratio"]) == (kind, ratio)]
                axis.plot(
                    [run["cpus"] for run in of],
                    [abs(run[key]) for run in of],
                    dash,
                    marker="o",
                    markersize=2.5,
                    alpha=0.4 + 0.15 * RATIOS.index(ratio),
                    color=plot.colour(OURS),
                    label=f"1:{ratio}, {label}",
                )
        axis.set_xscale("log", base=2)
        axis.set_xlabel("CPUs")
        axis.set_title(title)
    axes[0].set_ylabel("off by (points)")
    plot.one_legend(figure, [axes[0]], 4)
    return figure


EXPERIMENT = Study(
    title="Shares by weight on many CPUs",
    figure="no paper",
    about="Two domains with weights 1:1 to 1:9 on simulated machines, each with more tasks than "
    f"its share, for {SECONDS} s after the first second.",
    command=command,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    subject=OURS,
    settings={"seconds": SECONDS, "ratios": [f"1:{ratio}" for ratio in RATIOS]},
)
