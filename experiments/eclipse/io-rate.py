"""Eclipse Fig. 12: the rate of an I/O-bound process beside 0 to 20 `onoff` processes.

One thread reads a block, computes 0.1 ms, reads the next. It has the disk to itself, and asks less
of the CPU than its share; what can slow it is only waiting for the CPU at each request. The disk is
the kernel's null_blk, which serves one request at a time in 5 ms of the guest's own time: an
emulated drive would take the host's time, which passes differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_least
from experiments.framework.domains import step_words
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

DISK_US, WORK_US = 5000, 100
SECONDS, QUICK_SECONDS, SETTLE_S = 10, 5, 1
FLOOR = 0.95


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    program = ["/job/ioloop", "/dev/nullb0", str(WORK_US), str(seconds)]
    return [
        Step(
            f"{policy}-{n}",
            step_words(
                beside_onoffs(program, n, policy, late=True), SETTLE_S, 1000, 0, disk_us=DISK_US
            ),
            seconds + SETTLE_S + 2,
        )
        for policy in policies(scheduler)
        for n in (QUICK_COUNTS if quick else COUNTS)
    ]


def read(folder: Path) -> dict[str, Any]:
    return read_json(folder / "eclipse-subject.out")


def ratio(points: Sequence[tuple[int, Any]], at: int) -> float:
    """The rate beside so many against the unloaded one."""
    rates = {n: s["per_second"] for n, s in points}
    return float(rates[at] / rates[0])


def judge(samples: Samples) -> list[Mark]:
    points = next(
        points
        for scheduler, policy, points in lines(samples)
        if (scheduler, policy) == ("aplomb", "mtr")
    )
    return [
        at_least(
            f"I/O rate with {COUNTS[-1]} onoff against none, MTR-LS",
            round(ratio(points, COUNTS[-1]), 4),
            FLOOR,
            "x",
        )
    ]


def table(samples: Samples) -> Table:
    rows = [
        [
            n,
            title(scheduler, policy),
            s["per_second"],
            round(ratio(points, n), 4),
            100 * s["cpu_s"] / s["seconds"],
        ]
        for scheduler, policy, points in lines(samples)
        for n, s in points
    ]
    rows.sort(key=lambda row: row[0])
    return ["onoff", "scheduler", "requests/s", "against unloaded", "CPU %"], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, (axis,) = plot.grid(1, 1, 6.4, 3.6)
    for scheduler, policy, points in lines(samples):
        axis.plot(
            [n for n, _ in points],
            [s["per_second"] for _, s in points],
            STYLES[policy],
            markersize=4,
            color=colour(scheduler, policy),
            label=title(scheduler, policy),
        )
    axis.set_ylim(bottom=0)
    axis.set_xlabel("onoff processes")
    axis.set_ylabel("requests a second")
    figure.suptitle(
        f"An I/O-bound process (disk {DISK_US / 1000:g} ms, CPU {WORK_US / 1000:g} ms a "
        "request) beside onoff",
        fontsize=10,
    )
    plot.one_legend(figure, [axis], 3)
    return figure


EXPERIMENT = Experiment(
    title="I/O rate in an overloaded system",
    figure="Eclipse, Fig. 12",
    about=f"A thread reads blocks at random places of a disk that takes {DISK_US / 1000:g} ms "
    f"for each, one after the other, for {SECONDS} s after the first, "
    f"beside 0 to {COUNTS[-1]} onoff processes, each in a domain of its own; no reservation.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
    settings={
        "seconds": SECONDS,
        "disk": "null_blk, one request at a time",
        "disk_us": DISK_US,
        "work_us": WORK_US,
        "onoff": list(COUNTS),
    },
)
