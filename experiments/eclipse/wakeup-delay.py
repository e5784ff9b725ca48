"""Eclipse Fig. 11: how late a sleeper wakes up, beside 0 to 20 `onoff` processes.

The sleeper uses 11 ms of CPU, sleeps for 100 ms, and so on: a tenth of a CPU, each onoff would take
two thirds. MTR-LS runs the member first that used less of its share; no reservation and no hint
about interactive programs is needed. The same is measured with 15 % reserved.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_most
from experiments.framework.domains import step_words
from experiments.framework.marks import below
from experiments.framework.reservation_domains import (
    COUNTS,
    QUICK_COUNTS,
    STYLES,
    beside_onoffs,
    colour,
    lines,
    policies,
    title,
)
from experiments.framework.results import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ON_US, OFF_US = 11000, 100000
SECONDS, QUICK_SECONDS, SETTLE_S = 20, 10, 1
RESERVED = 15
RESERVED_COUNTS = (0, 8, 20)
# Beside 8 onoff processes the sleeper's even share is a ninth of the CPU, more than it uses. Beside
# 20 the share is 4.8 %, half of what the sleeper uses.
WITHIN = 8


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    counts = QUICK_COUNTS if quick else COUNTS
    program = ["/job/sleeper", str(ON_US), str(OFF_US), str(seconds)]
    plan = [(policy, n, 0) for policy in policies(scheduler) for n in counts]
    if scheduler.name == "aplomb":
        plan += [("mtr-reserved", n, RESERVED) for n in RESERVED_COUNTS if n in counts]
    return [
        Step(
            f"{policy}-{n}",
            step_words(
                beside_onoffs(program, n, policy.partition("-")[0], reserved, late=True),
                SETTLE_S,
                1000,
                0,
            ),
            seconds + SETTLE_S + 2,
        )
        for policy, n, reserved in plan
    ]


def read(folder: Path) -> dict[str, Any]:
    return read_json(folder / "eclipse-subject.out")


def mean_ms(step: Mapping[str, Any]) -> float:
    """To a tenth of a millisecond: what the paper's figure can show, and less than a tick."""
    return round(float(step["delay_us"]["mean"]) / 1000, 1)


def judge(samples: Samples) -> list[Mark]:
    ours, most = samples["aplomb"], COUNTS[-1]
    within, within_reserved = (
        mean_ms(ours[step]) if step in ours else None
        for step in (f"mtr-{WITHIN}", f"mtr-reserved-{WITHIN}")
    )
    bare, reserved = mean_ms(ours[f"mtr-{most}"]), mean_ms(ours[f"mtr-reserved-{most}"])
    stock = mean_ms(samples["eevdf"][f"plain-{most}"]) if "eevdf" in samples else None
    return [
        at_most(
            f"mean wake-up delay with {WITHIN} onoff, MTR-LS without a reservation, no worse "
            "than with one",
            within,
            within_reserved,
            "ms",
        ),
        at_most(
            f"mean wake-up delay with {most} onoff, MTR-LS without a reservation, no worse than "
            "with one",
            bare,
            reserved,
            "ms",
        ),
        below(
            f"mean wake-up delay with {most} onoff, MTR-LS without a reservation, below EEVDF's",
            bare,
            stock,
            "ms",
        ),
    ]


def table(samples: Samples) -> Table:
    rows = [
        [
            n,
            title(scheduler, policy),
            s["sleeps"],
            *(s["delay_us"][k] / 1000 for k in ("mean", "p99", "max")),
            s["cpu_s"],
        ]
        for scheduler, policy, points in lines(samples)
        for n, s in points
    ]
    rows.sort(key=lambda row: row[0])
    return ["onoff", "scheduler", "sleeps", "delay ms, mean", "p99", "max", "CPU s"], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, (axis,) = plot.grid(1, 1, 6.4, 3.6)
    for scheduler, policy, points in lines(samples):
        axis.plot(
            [n for n, _ in points],
            [s["delay_us"]["mean"] / 1000 for _, s in points],
            STYLES[policy],
            markersize=4,
            color=colour(scheduler, policy),
            label=title(scheduler, policy),
        )
    axis.set_ylim(bottom=0)
    axis.set_xlabel("onoff processes")
    axis.set_ylabel("mean wake-up delay (ms)")
    figure.suptitle(
        "A sleeper (11 ms on, 100 ms off) beside onoff (11 ms on, 5 ms off)", fontsize=10
    )
    plot.one_legend(figure, [axis], 3)
    return figure


EXPERIMENT = Experiment(
    title="Wake-up delay in an overloaded system",
    figure="Eclipse, Fig. 11",
    about=f"A process that uses {ON_US / 1000:g} ms and sleeps {OFF_US / 1000:g} ms tells how "
    f"late it wakes up, for {SECONDS} s after the first, beside 0 to "
    f"{COUNTS[-1]} onoff processes, each in a domain of its own of the same weight.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
    settings={"seconds": SECONDS, "reservation_percent": RESERVED, "onoff": list(COUNTS)},
)
