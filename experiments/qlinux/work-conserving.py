"""QLinux Fig. 5(c): one of two domains of equal weight is suspended for a while; the other one gets
all of the CPU meanwhile.

In the paper one of two Inf processes is stopped at 250 s and goes on at 350 s. Here the times are
shorter. It is stopped and continued by signals, as a person would.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import (
    Experiment,
    Mark,
    Samples,
    Scheduler,
    Step,
    Table,
    at_least,
    at_most,
)
from experiments.framework.domains import loops, points_off, read_samples, step_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTLE_S, INTERVAL_MS = 2, 250
STOP_S, GO_ON_S, END_S = 6, 12, 22
EDGE_S = 0.25  # left out at each change: the signals come a little after the whole second
PHASES = {"both": (0, STOP_S), "one suspended": (STOP_S, GO_ON_S), "both again": (GO_ON_S, END_S)}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    domains = [loops("one"), loops("other")]
    events = f"{STOP_S}:STOP:other,{GO_ON_S}:CONT:other"
    return [
        Step(
            "suspended",
            step_words(domains, SETTLE_S, INTERVAL_MS, END_S * 1000 // INTERVAL_MS, events),
            END_S + SETTLE_S + 1,
        )
    ]


def in_phase(sample: Mapping[str, Any], phase: str, path: str = "one") -> tuple[float, float]:
    """CPU seconds that a domain got in a phase, and the phase's length, edges left out."""
    begin, end = (PHASES[phase][0] + EDGE_S, PHASES[phase][1] - EDGE_S)
    inside = [i for i, t in enumerate(sample["at_s"]) if begin - 0.01 <= t <= end + 0.01]
    cpu = sample["domains"][path]["cpu_s"]
    return cpu[inside[-1]] - cpu[inside[0]], sample["at_s"][inside[-1]] - sample["at_s"][inside[0]]


def share(sample: Mapping[str, Any], phase: str, path: str = "one") -> float:
    """Its part of what both got."""
    mine, other = (in_phase(sample, phase, p)[0] for p in ("one", "other"))
    return (mine if path == "one" else other) / (mine + other)


def judge(samples: Samples) -> list[Mark]:
    sample = samples["aplomb"]["suspended"]
    cpu, seconds = in_phase(sample, "one suspended")
    # A domain that comes back must not make up for the time it missed: its share is one half, as
    # before.
    return [
        at_least(
            "CPU of the one that runs while the other is suspended",
            round(100 * cpu / seconds, 3),
            99,
            "%",
        ),
        *[
            at_most(
                f"share received against share asked, {phase}, off 100 by",
                round(abs(points_off(share(sample, phase), 0.5)), 3),
                0.5,
                "points",
            )
            for phase in ("both", "both again")
        ],
    ]


def table(samples: Samples) -> Table:
    rows: list[list[Any]] = []
    for scheduler, steps in samples.items():
        for phase, (begin, end) in PHASES.items():
            cpu, seconds = in_phase(steps["suspended"], phase)
            rows.append(
                [
                    phase,
                    f"{begin} to {end}",
                    scheduler,
                    100 * cpu / seconds,
                    100 * share(steps["suspended"], phase),
                    100 * share(steps["suspended"], phase, "other"),
                ]
            )
    rows.sort(key=lambda row: list(PHASES).index(row[0]))
    return [
        "phase",
        "seconds",
        "scheduler",
        "running one: CPU %",
        "its part %",
        "the suspended one's part %",
    ], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, (axis,) = plot.grid(1, 1, 6.0, 3.2)
    for scheduler, steps in samples.items():
        for path, style in (("one", "-"), ("other", ":")):
            sample = steps["suspended"]
            axis.plot(
                sample["at_s"],
                [t / 1e6 for t in sample["domains"][path]["turns"]],
                style,
                color=plot.colour(scheduler),
                label=f"{plot.title(scheduler).split(',')[0]}, "
                f"{'runs on' if path == 'one' else 'suspended'}",
            )
    for at in (STOP_S, GO_ON_S):
        axis.axvline(at, color="black", linewidth=0.6, linestyle=":")
    axis.set_xlabel("time (s)")
    axis.set_ylabel("loops (millions)")
    figure.suptitle(
        "Two domains of equal weight, one suspended between the dotted lines", fontsize=10
    )
    plot.one_legend(figure, [axis], 2)
    return figure


EXPERIMENT = Experiment(
    title="What a suspended domain leaves goes to the other",
    figure="QLinux, Fig. 5(c)",
    about="Two domains of equal weight with an infinite loop each; one is stopped from second "
    f"{STOP_S} to {GO_ON_S}.",
    steps=make,
    read=read_samples,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
    settings={
        "phases_s": {name: list(when) for name, when in PHASES.items()},
        "left_out_at_changes_s": EDGE_S,
    },
)
