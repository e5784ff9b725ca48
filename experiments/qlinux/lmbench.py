"""QLinux Table 4: what system calls, forks, switches and so on cost when no domain is configured
(the plain case).

The paper has lmbench's figures. lmbench is not in Debian's free archive, so workloads/micro.c
measures the table's rows by lmbench's methods. The mark is the pipe ping-pong of
redline/switch-cost, against what it was before the domain tree was there: a machine that configures
no domain must not pay for the tree.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_most
from experiments.framework.results import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPEATS = 3
SWITCHES = 20000
# Microseconds a switch in results/redline/switch-cost.json, which was measured with 3af8f9b (36
# commits to bpf/ before the tree, and before Kato's servers): mean of 3, kernel 7.3.4.
BEFORE_US = 14.395
TESTS = {  # step: title, words, guest seconds, key of the result
    "syscall": ("system call", ["/job/micro", "syscall", "200000"], 0.5, "ns"),
    "fork": ("fork()", ["/job/micro", "fork", "1000"], 1, "ns"),
    "exec": ("exec()", ["/job/micro", "exec", "300", "/bin/true"], 2, "ns"),
    "context-2": (
        "context switch (2 proc/0KB)",
        ["/job/micro", "context", "10000", "2", "0"],
        1,
        "ns",
    ),
    "context-16": (
        "context switch (16 proc/64KB)",
        ["/job/micro", "context", "4000", "16", "64"],
        2,
        "ns",
    ),
    "udp": ("local UDP latency", ["/job/micro", "udp", "5000"], 1, "ns"),
    "files": ("file create (0 KB file)", ["/job/micro", "files", "5000", "/tmp"], 1, "create_ns"),
    "pingpong": ("pipe ping-pong, a switch", ["/job/pingpong", str(SWITCHES)], 1, "ns_per_switch"),
}
DELETE = ("file delete (0 KB file)", "files", "delete_ns")


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    return [
        Step(f"{name}-{repeat}", ["alone", *words], seconds)
        for repeat in range(1 if quick else REPEATS)
        for name, (_, words, seconds, _) in TESTS.items()
    ]


def read(folder: Path) -> dict[str, Any]:
    return read_json(folder / "stdout")


def values(steps: Mapping[str, Any], name: str, key: str) -> list[float]:
    """Microseconds, of all repeats."""
    return [s[key] / 1000 for step, s in steps.items() if step.rpartition("-")[0] == name]


def rows_of(steps: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Title, mean and spread in us."""
    found = [(title, values(steps, name, key)) for name, (title, _, _, key) in TESTS.items()]
    found.insert(-1, (DELETE[0], values(steps, DELETE[1], DELETE[2])))
    return [(title, statistics.mean(v), max(v) - min(v)) for title, v in found]


def judge(samples: Samples) -> list[Mark]:
    ours = statistics.mean(values(samples["aplomb"], "pingpong", "ns_per_switch"))
    return [
        at_most(
            "pipe ping-pong with no domain configured, against before the tree",
            round(ours / BEFORE_US, 4),
            1.02,
            "x",
        )
    ]


def table(samples: Samples) -> Table:
    columns = {scheduler: rows_of(steps) for scheduler, steps in samples.items()}
    titles = [row[0] for row in next(iter(columns.values()))]
    headers = [
        "test",
        *(word for scheduler in columns for word in (f"{scheduler} us", f"{scheduler} spread")),
    ]
    return headers, [
        [title, *(x for rows in columns.values() for x in rows[i][1:])]
        for i, title in enumerate(titles)
    ]


def draw(samples: Samples) -> Figure:
    """Each row against EEVDF's (or the first scheduler's), since they span three orders of
    magnitude."""
    from experiments.framework import plot

    figure, (axis,) = plot.grid(1, 1, 6.4, 3.8)
    first = "eevdf" if "eevdf" in samples else next(iter(samples))
    base = rows_of(samples[first])
    height = 0.8 / len(samples)
    for number, (scheduler, steps) in enumerate(samples.items()):
        axis.barh(
            [i + (number + 0.5) * height - 0.4 for i in range(len(base))],
            [row[1] / reference[1] for row, reference in zip(rows_of(steps), base)],
            height * 0.9,
            color=plot.colour(scheduler),
            label=plot.title(scheduler).split(",")[0],
        )
    axis.set_yticks(range(len(base)), [f"{row[0]}, {row[1]:.3g} us" for row in base], fontsize=7)
    axis.invert_yaxis()
    axis.set_xlabel(f"time, {plot.title(first).split(',')[0]} = 1 (its time at the left)")
    figure.suptitle("Table 4, with no domain configured", fontsize=10)
    plot.one_legend(figure, [axis], 4)
    return figure


EXPERIMENT = Experiment(
    title="System calls, forks and switches in the plain case",
    figure="QLinux, Table 4",
    about=f"The rows of the table by lmbench's methods, {REPEATS} times, and a pipe ping-pong of "
    f"{SWITCHES} switches; nothing else runs "
    "and no domain is configured.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
    settings={
        "repeats": REPEATS,
        "tests": {name: " ".join(words) for name, (_, words, _, _) in TESTS.items()},
        "switch_before_us": BEFORE_US,
        "lmbench": "not in Debian's free archive: workloads/micro.c, by its methods",
    },
)
