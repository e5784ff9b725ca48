"""A large program started beside memory bombs: how long until it answers? Redline section 8.2
starts a browser beside four bombs: ready after 30 s under Redline, after 4 minutes under Linux.

The program is LibreOffice without a display, which opens a letter, lays it out and writes it as
PDF: then it has answered. It has run before, its folder is on a disk with a time of its own, and
nothing of it is in memory. A browser is no larger where it matters (LibreOffice loads some 100
libraries), but compiles at run time: under emulation each instruction that a program makes is
translated anew, so its time would be the emulator's.

The mark compares with the same start when nothing else runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.errors import ExperimentError
from experiments.framework.frames import read_load
from experiments.framework.marks import at_most
from experiments.framework.memory import (
    BOMB_MB,
    BOMBS,
    COLUMNS,
    GUEST_MB,
    Variant,
    bombs,
    by_hand,
    cells,
    in_short_memory,
    no_reclaim,
    of_scheduler,
    program,
    protecting,
    shortage,
)
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "/usr/lib/libreoffice"
BINARY = f"{FOLDER}/program/soffice.bin"
DOCUMENT = "/job/letter.fodt"
RUNS, QUICK_RUNS = 3, 1
SETTLE_S = 4
LIMIT_S = 300  # then the program is killed
ESTIMATE_S = 60  # of a start, for limits
MOST = 1.5  # times what the start takes alone
DISK = "512M,iops=400,rate=40M"
# As the specification that aplomb ships for it.
RESERVATION = Reservation(6000, 50000)
PROTECTED = "250M"
ALONE = {
    "eevdf": Variant("alone", "eevdf", "EEVDF, no bombs"),
    "aplomb": Variant("alone", "aplomb", "aplomb, no bombs", profile="protecting"),
}
BOMBED = (
    *by_hand(PROTECTED),
    Variant("be", "aplomb", "aplomb", profile="protecting"),
)
VARIANTS = (*ALONE.values(), *BOMBED)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    steps = []
    for variant in of_scheduler(VARIANTS, scheduler):
        words = [
            "started",
            FOLDER,
            LIMIT_S,
            SETTLE_S,
            *program(*scheduler.prefix(RESERVATION)),
            "--",
            BINARY,
            "--headless",
            "--norestore",
            "--convert-to",
            "pdf",
            "--outdir",
            "/tmp/home",
            DOCUMENT,
            "--",
            *(bombs(20 * LIMIT_S) if variant in BOMBED else []),
        ]
        for run in range(1, (QUICK_RUNS if quick else RUNS) + 1):
            numbered = replace(variant, name=f"{variant.name}-{run}")
            steps.append(numbered.step(words, SETTLE_S + ESTIMATE_S))
    return steps


def read(folder: Path) -> dict[str, Any]:
    printed = (folder / "stdout").read_text()
    killed = (folder / "killed").exists()
    if not killed and "convert " not in printed:
        said = (folder / "stderr").read_text()
        raise ExperimentError(f"{folder}: the program did not do its work: {printed} {said}")
    memory = dict(line.split() for line in (folder / "stat-program").read_text().splitlines())
    return {
        "seconds": None if killed else round(float((folder / "seconds").read_text()), 3),
        "killed": killed,
        "major_faults": int(memory["pgmajfault"]),
        **shortage(folder, read_load(folder / "load"), SETTLE_S),
    }


def runs_of(variant: Variant, samples: Samples) -> list[Mapping[str, Any]]:
    found = samples.get(variant.scheduler, {})
    return [sample for name, sample in found.items() if name.rpartition("-")[0] == variant.name]


def longest(runs: Sequence[Mapping[str, Any]]) -> float | None:
    """The longest start; None if a program was killed, or none was started."""
    times = [run["seconds"] for run in runs]
    return None if not times or None in times else max(times)


def median(runs: Sequence[Mapping[str, Any]]) -> float | None:
    """The median start, where one that was killed took longer than all others."""
    times = [float("inf") if run["seconds"] is None else run["seconds"] for run in runs]
    middle = statistics.median(times) if times else float("inf")
    return None if middle == float("inf") else middle


def judge(samples: Samples) -> list[Mark]:
    alone = median(runs_of(ALONE["aplomb"], samples))
    marks = []
    for variant in of_our_own():
        if not (runs := runs_of(variant, samples)):
            continue
        mark = at_most(
            f"longest start beside bombs, against {MOST} x the start without",
            longest(runs),
            None if alone is None else round(MOST * alone, 3),
            "s",
        )
        if any(run["killed"] for run in runs):
            mark = replace(mark, ok=False, note=f"killed, or not done after {LIMIT_S} s")
        marks += [mark, no_reclaim(max(runs, key=reclaims))]
    return marks


def of_our_own() -> list[Variant]:
    return [variant for variant in BOMBED if variant.scheduler == "aplomb"]


def reclaims(run: Mapping[str, Any]) -> int:
    return int(run["tasks"]["interactive"]["reclaimed"]) if run["tasks"] else 0


def table(samples: Samples) -> Table:
    rows = []
    for variant in VARIANTS:
        for number, run in enumerate(runs_of(variant, samples), 1):
            rows.append(
                [
                    f"{variant.title}, start {number}" + (" (killed)" if run["killed"] else ""),
                    run["seconds"],
                    run["major_faults"],
                    *cells(run),
                ]
            )
    return ["variant", "s until it answers", "major faults", *COLUMNS], rows


def draw(samples: Samples) -> Figure:
    """The time of each start, a row of dots for each variant."""
    from experiments.framework import plot

    found = [variant for variant in VARIANTS if runs_of(variant, samples)]
    figure, (axis,) = plot.grid(1, 1, 6.4, 2.6)
    for row, variant in enumerate(found):
        runs = runs_of(variant, samples)
        done = [run["seconds"] for run in runs if run["seconds"] is not None]
        killed = len(runs) - len(done)
        colour = plot.colour(variant.scheduler)
        axis.plot(done, [row] * len(done), "o", color=colour, alpha=0.6, markersize=5)
        axis.plot([LIMIT_S] * killed, [row] * killed, "x", color=colour, markersize=6)
    if (alone := median(runs_of(ALONE["aplomb"], samples))) is not None:
        axis.axvline(MOST * alone, color="#000000", linewidth=0.8, linestyle=":")
    axis.set_yticks(range(len(found)), [variant.title for variant in found], fontsize=8)
    axis.set_ylim(len(found) - 0.5, -0.5)
    axis.set_xlim(left=0)
    axis.set_xlabel(f"seconds until it answers (dotted: {MOST} x without bombs; cross: killed)")
    figure.suptitle(f"LibreOffice started beside {BOMBS} memory bombs", fontsize=10)
    return figure


EXPERIMENT = in_short_memory(
    Experiment(
        title="A large program started beside memory bombs",
        figure="Redline, section 8.2 (a browser)",
        about=f"In a guest of {GUEST_MB} MB {BOMBS} tasks write to each page of {BOMB_MB} MB each, "
        f"again and again; {SETTLE_S} s later LibreOffice starts from a disk and converts a "
        "document.",
        steps=make,
        read=read,
        judge=judge,
        table=table,
        draw=draw,
        profiles={"protecting": protecting()},
        settings={
            "program": BINARY,
            "disk": DISK,
            "reservation_ms": str(RESERVATION),
            "protected": PROTECTED,
            "limit_s": LIMIT_S,
            "bombs_settle_s": SETTLE_S,
        },
        disks=(DISK,),
        packages=("libreoffice-writer-nogui",),
        inputs=(Path(__file__).with_name("letter.fodt"),),
    )
)
