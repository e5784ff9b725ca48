"""Of no paper: what ordinary programs pay, those that mostly wake each other up, yield and fork.

Nothing else runs. A program's rate is EEVDF's time divided by the scheduler's. Each program runs
without domains, and in a domain four levels deep, as a desktop's application under systemd does.

With several CPUs the emulator lets them take turns on one of the host's, so the rate says how much
work a program takes on all of them together, and not how well they share it.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ExperimentError
from .experiment import Experiment, Samples, Step, Table
from .marks import Mark, at_least
from .schedulers import Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPEATS = 3
FLOOR = 0.97
DEEP = "apps/session/slice/app"
PLACES = {"plain": "-", "deep": DEEP}
# A part of lua's source, that takes some ten seconds on one CPU; the whole takes 80, since
# compilers are slow in an emulator.
OBJECTS = (
    "lctype.o lfunc.o lmem.o lobject.o lopcodes.o lstring.o lzio.o linit.o lstate.o ldump.o "
    "ldebug.o ldo.o ltm.o "
    "lundump.o"
)


def compile_with(jobs: int) -> str:
    """The compile job, as a line of shell."""
    return (
        "rm -rf /tmp/tree && cp -a /lab/src/lua-*/src /tmp/tree && exec make -C /tmp/tree "
        f"-j{jobs} {OBJECTS}"
    )


@dataclass(frozen=True)
class Program:
    """An ordinary program that does a fixed amount of work. seconds: about what it takes."""

    title: str
    words: Sequence[str]
    seconds: float


def stress(what: str, operations: int) -> tuple[str, ...]:
    return ("stress-ng", "--quiet", f"--{what}", "2", f"--{what}-ops", str(operations))


# Each takes one to three seconds under EEVDF, but for the compile job.
PROGRAMS = {
    "sockets": Program("hackbench, sockets", ("hackbench", "-g", "1", "-l", "200"), 2),
    "pipes": Program(
        "hackbench, pipes, threads", ("hackbench", "-T", "-p", "-g", "1", "-l", "200"), 2
    ),
    "switch": Program("stress-ng switch, 2", stress("switch", 20000), 2),
    "fork": Program("stress-ng fork, 2", stress("fork", 400), 2),
    "futex": Program("stress-ng futex, 2", stress("futex", 4000), 3),
    "threads": Program(
        "sysbench threads, 16",
        ("sysbench", "threads", "--threads=16", "--events=100", "--time=0", "run"),
        3,
    ),
    "compile": Program("compile job, -j4", ("sh", "-c", compile_with(4)), 12),
}


def make(_: Scheduler, quick: bool) -> list[Step]:
    return [
        Step(f"{place}-{key}-{repeat}", ["timed_in", domain, *program.words], program.seconds)
        for repeat in range(1 if quick else REPEATS)
        for place, domain in PLACES.items()
        for key, program in PROGRAMS.items()
    ]


def read_seconds(folder: Path) -> Mapping[str, Any]:
    """What `timed` left."""
    file = folder / "seconds"
    try:
        return {"seconds": float(file.read_text())}
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{file}: {error}") from error


def mean(steps: Mapping[str, Any], name: str) -> float | None:
    """Mean seconds of a step's repeats; None if there is none."""
    values = [step["seconds"] for key, step in steps.items() if key.startswith(f"{name}-")]
    return statistics.mean(values) if values else None


def rate(samples: Samples, scheduler: str, name: str) -> float | None:
    """A scheduler's rate, of EEVDF's."""
    stock, other = (mean(samples.get(each, {}), name) for each in ("eevdf", scheduler))
    return stock / other if stock and other else None


def measured(samples: Samples) -> list[tuple[str, str, str]]:
    """Name of the steps, program, place."""
    return [
        (f"{place}-{key}", program.title, place)
        for key, program in PROGRAMS.items()
        for place in PLACES
        if mean(samples.get("aplomb", {}), f"{place}-{key}")
    ]


def judge(samples: Samples) -> list[Mark]:
    return [
        at_least(f"{title}, {place}: rate", rate(samples, "aplomb", name), FLOOR, "x of EEVDF's")
        for name, title, place in measured(samples)
    ]


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [title, place, scheduler, mean(steps, name), rate(samples, scheduler, name)]
        for name, title, place in measured(samples)
        for scheduler, steps in samples.items()
        if mean(steps, name)
    ]
    return ["program", "place", "scheduler", "seconds", "rate of EEVDF's"], rows


def draw(samples: Samples) -> Figure:
    """Each program's rate."""
    from . import plot

    figure, axes = plot.grid(1, len(PLACES), 4.6, 3.4, sharey=True)
    others = [scheduler for scheduler in samples if scheduler != "eevdf"]
    width = 0.8 / max(1, len(others))
    for axis, place in zip(axes, PLACES, strict=True):
        axis.axhline(1, color="0.5", lw=0.8)
        for number, scheduler in enumerate(others):
            places = [i + (number - (len(others) - 1) / 2) * width for i in range(len(PROGRAMS))]
            axis.bar(
                places,
                [rate(samples, scheduler, f"{place}-{key}") or 0 for key in PROGRAMS],
                width * 0.9,
                color=plot.colour(scheduler),
                label=plot.title(scheduler).split(",")[0],
            )
        axis.set_xticks(range(len(PROGRAMS)), list(PROGRAMS), rotation=30, fontsize=8)
        axis.set_title("no domains" if place == "plain" else "four domains deep", fontsize=9)
    axes[0].set_ylabel("rate of EEVDF's")
    plot.one_legend(figure, axes, 4)
    return figure


def programs(cpus: int) -> Experiment:
    """The experiment on that many CPUs."""
    return Experiment(
        title=f"Ordinary programs on {cpus} CPU{'s' if cpus > 1 else ''}",
        figure="no paper",
        about="Programs that wake each other up, yield, fork and compile, each alone in virtual "
        f"time, {REPEATS} times: without domains, and in a domain at depth 4.",
        steps=make,
        read=read_seconds,
        judge=judge,
        table=table,
        draw=draw,
        machine="timing" if cpus == 1 else "timing-smp",
        cpus=None if cpus == 1 else cpus,
        schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
        settings={"cpus": cpus, "repeats": REPEATS},
    )
