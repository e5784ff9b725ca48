"""What the protection of memory costs a machine that has enough memory.

Page faults and forks by lmbench's methods (workloads/micro.c: lat_pagefault, lat_proc fork), new
anonymous pages, and a compile job; the first three also in an interactive program, whose memory is
protected. aplomb with `[memory] protect = true` alternates with aplomb without it in one guest, in
virtual time; medians are compared. EEVDF is there to be looked at.

All but the compile job run in a cgroup of their own, as a service manager starts programs. The
kernel accounts for memory in each cgroup but the root. Without a service manager an interactive
program is in the root until its memory is protected, and what accounting costs comes on top of what
is measured here: a fork took 695 us instead of 615 (medians of three).
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_least
from experiments.framework.experiment import Profile
from experiments.framework.guest import WORKLOADS
from experiments.framework.memory import protecting
from experiments.framework.results import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Off, on, on, off, off, on: neither is always the first.
REPEATS = 3
# Guest time of a daemon's start. All steps of a scheduler must fit into one guest
# (framework/guest.py, SECONDS_PER_GUEST).
START_S = 20
LEAST = 0.99
OFF, ON = "without", "with"
PLACE = ("/job/enter", "program")
OWN = "micro-own"  # a copy of the program, which is interactive
LINE = f"/job/{OWN}:iact:10:100:IR:-:-"
# As in redline/throughput: a part of the tree, some ten seconds.
OBJECTS = "lctype.o lfunc.o lmem.o lobject.o lopcodes.o lstring.o lzio.o linit.o lstate.o ldump.o"
COMPILE = (
    f"rm -rf /tmp/tree && cp -a /lab/src/lua-*/src /tmp/tree && make -C /tmp/tree -j4 {OBJECTS}"
)


@dataclass(frozen=True)
class Test:
    """seconds: guest time; own: it is also measured in an interactive program."""

    title: str
    words: tuple[str, ...]
    seconds: float
    own: bool = True


TESTS = {
    "fault": Test("page fault", ("micro", "fault", "30000", "/lab/clips/heavy.avi"), 0.5),
    "touch": Test("new page", ("micro", "touch", "60000", "16"), 0.5),
    "fork": Test("fork()", ("micro", "fork", "1000"), 1),
    "compile": Test("compile job", ("sh", "-c", COMPILE), 12, own=False),
}


def steps_of(scheduler: Scheduler, profile: str, repeat: int) -> list[Step]:
    steps = []
    for name, test in TESTS.items():
        program, *arguments = test.words
        if not test.own:
            words = ["timed", *test.words]
            steps.append(Step(f"{name}-{profile}-{repeat}", words, test.seconds, profile))
            continue
        for title, binary in ((name, program), (f"{name}_own", OWN)):
            if title == name or scheduler.name == "aplomb":
                words = ["grouped", "alone", *PLACE, f"/job/{binary}", *arguments]
                steps.append(Step(f"{title}-{profile}-{repeat}", words, test.seconds, profile))
    return steps


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    steps = []
    for repeat in range(1 if quick else REPEATS):
        both = (OFF, ON) if repeat % 2 == 0 else (ON, OFF)
        for profile in both if scheduler.name == "aplomb" else (OFF,):
            phase = steps_of(scheduler, profile, repeat)
            first = phase[0]
            phase[0] = Step(first.name, first.words, first.seconds + START_S, first.profile)
            steps += phase
    return steps


def read(folder: Path) -> dict[str, Any]:
    """Microseconds of one operation; of the compile job, all of it."""
    seconds = folder / "seconds"
    if seconds.exists():
        return {"us": 1e6 * float(seconds.read_text())}
    return {"us": read_json(folder / "stdout")["ns"] / 1000}


def times(steps: Mapping[str, Any], name: str, profile: str) -> list[float]:
    """Of all repeats."""
    wanted = f"{name}-{profile}"
    return [s["us"] for step, s in steps.items() if step.rpartition("-")[0] == wanted]


def rows_of(samples: Samples) -> list[tuple[str, list[float], list[float], list[float]]]:
    """Title; times with protection off, on, and under EEVDF."""
    rows = []
    for name, test in TESTS.items():
        for key, title in ((name, test.title), (f"{name}_own", f"{test.title}, interactive")):
            off, on = (times(samples.get("aplomb", {}), key, profile) for profile in (OFF, ON))
            stock = times(samples.get("eevdf", {}), key, OFF)
            if off or on or stock:
                rows.append((title, off, on, stock))
    return rows


def rate(off: list[float], on: list[float]) -> float | None:
    """The rate with protection, against that without."""
    if not off or not on:
        return None
    return round(statistics.median(off) / statistics.median(on), 4)


def judge(samples: Samples) -> list[Mark]:
    return [
        at_least(f"rate with memory protected, against without: {title}", rate(off, on), LEAST, "x")
        for title, off, on, _ in rows_of(samples)
    ]


def table(samples: Samples) -> Table:
    def middle(values: list[float]) -> float | None:
        return round(statistics.median(values), 3) if values else None

    def spread(values: list[float]) -> float | None:
        return round(max(values) - min(values), 3) if values else None

    return [
        "test",
        "protected us",
        "spread",
        "not protected us",
        "spread",
        "rate",
        "EEVDF us",
    ], [
        [title, middle(on), spread(on), middle(off), spread(off), rate(off, on), middle(stock)]
        for title, off, on, stock in rows_of(samples)
    ]


def draw(samples: Samples) -> Figure:
    """Each rate against that without protection; a dot for each pair of repeats."""
    from experiments.framework import plot

    rows = [
        (title, off, on, middle)
        for title, off, on, _ in rows_of(samples)
        if (middle := rate(off, on)) is not None
    ]
    figure, (axis,) = plot.grid(1, 1, 6.4, 2.8)
    for number, (_, off, on, middle) in enumerate(rows):
        pairs = [a / b for a, b in zip(off, on)]
        axis.plot(pairs, [number] * len(pairs), "o", color=plot.colour("aplomb"), alpha=0.4)
        axis.plot([middle], [number], "D", color=plot.colour("aplomb"))
    axis.axvline(LEAST, color="#000000", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(rows)), [row[0] for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel(f"rate, without protection = 1 (diamond: of the medians; dotted: {LEAST})")
    figure.suptitle("The cost of protected memory, when there is enough", fontsize=10)
    return figure


EXPERIMENT = Experiment(
    title="What the protection of memory costs when there is enough",
    figure="of no paper",
    about=f"Page faults, new pages, forks and a compile job with `[memory] protect = true` and "
    f"without, {REPEATS} times each in turns in one guest; nothing else runs.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    profiles={OFF: Profile((LINE,)), ON: protecting(LINE)},
    inputs=((WORKLOADS / "micro", OWN),),
    settings={
        "repeats": REPEATS,
        "tests": {name: " ".join(test.words) for name, test in TESTS.items()},
        "interactive": LINE,
        "lmbench": "not in Debian's free archive: workloads/micro.c, by its methods",
    },
)
