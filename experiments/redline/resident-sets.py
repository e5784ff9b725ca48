"""Redline Fig. 9: two memory bombs of half of memory each. The second, which starts some seconds
later, is interactive. How much of each is resident, over time?

Under stock Linux the first bomb dirties its pages too fast for the second to get all of its own,
whatever its priority. With speed bumps it gets them at once, from the first.

The mark is a multiple of the time that reading and writing the second bomb's pages takes on an idle
machine. What must be moved lies in swap, so that time is the swap device's: the step "idle" has the
kernel write as much memory of a sleeping program to the device, and the program read all of it
back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.frames import read_load
from experiments.framework.guest import WORKLOADS
from experiments.framework.marks import at_most
from experiments.framework.memory import (
    COLUMNS,
    GUEST_MB,
    Variant,
    by_hand,
    cells,
    in_short_memory,
    measured,
    no_reclaim,
    of_scheduler,
    program,
    protecting,
    shortage,
)
from experiments.framework.schedulers import Reservation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HALF_MB = GUEST_MB // 2
SETTLE_S = 5  # then the first bomb has all of its memory
LASTS_S, QUICK_LASTS_S = 120, 40
SLEEPS_S = 60  # in the step "idle", until the pages are read back
READS_S = 60  # an estimate, for limits
MOST = 2  # times what an idle machine takes
RESERVATION = Reservation(10000, 100000)
SECOND = "second-bomb"  # a copy of the program, for the first must match no specification
SECOND_LINE = f"/job/{SECOND}:iact:{RESERVATION}:IR:-:-"
PROTECTED = f"{HALF_MB}M"
IDLE = Variant("idle", "eevdf", "idle machine")
VARIANTS = (
    *by_hand(PROTECTED, "second bomb at nice -20"),
    Variant("iact", "aplomb", f"aplomb, second bomb interactive {RESERVATION}", profile="second"),
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    lasts = QUICK_LASTS_S if quick else LASTS_S
    words = [
        "after_load",
        SETTLE_S,
        *program(*scheduler.prefix(RESERVATION)),
        "--",
        f"/job/{SECOND}",
        1,
        HALF_MB,
        lasts,
        "--",
        *["/job/enter", "load", "/job/membomb", 1, HALF_MB, 20 * lasts],
    ]
    steps = [
        variant.step(words, SETTLE_S + lasts + 10) for variant in of_scheduler(VARIANTS, scheduler)
    ]
    for variant in of_scheduler([IDLE], scheduler):
        steps.append(variant.step(["out_and_in", HALF_MB, SLEEPS_S], SLEEPS_S + READS_S))
    return steps


def read(folder: Path) -> dict[str, Any]:
    if (folder / "left").exists():  # of the step "idle"
        (back,) = (json.loads(line) for line in (folder / "stdout").read_text().splitlines())
        left, swapped = (int(line) for line in (folder / "left").read_text().split())
        return {
            "write_s": float((folder / "seconds").read_text()),
            "read_s": back["ms"] / 1000,
            "faults": back["major_faults"],
            "not_written_mb": round(left / (1 << 20), 1),
            "in_swap_mb": round(swapped / (1 << 20), 1),
        }
    first = read_load(folder / "load")
    second = read_load(folder / "stdout")
    if not first or not second:
        raise ValueError(f"{folder}: a bomb said nothing")
    return {
        "first_resident_mb": first["resident_mb"],
        "resident_mb": second["resident_mb"],
        "started_after_s": round(second["start_s"] - first["start_s"], 3),
        "pages_per_s": second["pages_each_second"],
        **shortage(folder, first, SETTLE_S),
    }


def complete_after(sample: Mapping[str, Any]) -> int | None:
    """The second of its life at whose end all of the second bomb is resident; None: never."""
    for second, resident in enumerate(sample["resident_mb"], 1):
        if resident >= HALF_MB:
            return second
    return None


def judge(samples: Samples) -> list[Mark]:
    marks = []
    idle = samples.get("eevdf", {}).get(IDLE.name)
    limit = round(MOST * (idle["write_s"] + idle["read_s"]), 1) if idle else None
    for _, sample in measured(VARIANTS, {"aplomb": samples["aplomb"]}):
        after = complete_after(sample)
        mark = at_most(
            f"until all of the interactive bomb is resident, against {MOST} x what writing and "
            "reading it takes on an idle machine",
            after,
            limit,
            "s",
        )
        if after is None:
            most = max(sample["resident_mb"], default=0)
            mark = replace(mark, ok=False, note=f"never; at most {most:.0f} of {HALF_MB} MB")
        marks += [mark, no_reclaim(sample)]
    return marks


def table(samples: Samples) -> Table:
    rows: list[list[object]] = []
    for variant, sample in measured(VARIANTS, samples):
        resident = sample["resident_mb"]
        late = resident[len(resident) // 2 :]
        rows.append(
            [
                variant.title,
                complete_after(sample),
                max(resident, default=None),
                round(sum(late) / len(late), 1) if late else None,
                *cells(sample),
            ]
        )
    for variant, sample in measured([IDLE], samples):
        took = round(sample["write_s"] + sample["read_s"], 1)
        rows.append([f"{variant.title}, written and read", took, HALF_MB, HALF_MB])
        rows[-1] += [None] * len(COLUMNS)
    return [
        "variant",
        "s until complete",
        "most resident MB",
        "mean of 2nd half",
        *COLUMNS,
    ], rows


def draw(samples: Samples) -> Figure:
    """The resident set of each bomb over time, a panel for each variant, as in Fig. 9."""
    from experiments.framework import plot

    found = list(measured(VARIANTS, samples))
    figure, axes = plot.grid(len(found), 1, 6.4, 1.6, sharex=True, sharey=True)
    for axis, (variant, sample) in zip(axes, found):
        first, second = sample["first_resident_mb"], sample["resident_mb"]
        begin = sample["started_after_s"]
        axis.plot(range(1, len(first) + 1), first, "--", color="#7f7f7f", label="first bomb")
        axis.plot(
            [begin + i for i in range(1, len(second) + 1)],
            second,
            color=plot.colour(variant.scheduler),
            label="second bomb",
        )
        axis.axhline(HALF_MB, color="#000000", linewidth=0.8, linestyle=":")
        axis.set_title(variant.title, loc="left")
        axis.set_ylim(0, 1.1 * HALF_MB)
        axis.set_ylabel("MB")
        axis.legend(fontsize=7, loc="center right")
    axes[-1].set_xlabel(f"time (s); dotted: all of the {HALF_MB} MB that each writes to")
    figure.suptitle("Resident sets of two memory bombs", fontsize=10)
    return figure


EXPERIMENT = in_short_memory(
    Experiment(
        title="Resident sets of two memory bombs, the second interactive",
        figure="Redline, Fig. 9",
        about=f"In a guest of {GUEST_MB} MB a task writes to each page of {HALF_MB} MB again and "
        f"again; {SETTLE_S} s later another one does the same for {LASTS_S} s, at nice -20 under "
        f"stock Linux, interactive {RESERVATION} under aplomb.",
        steps=make,
        read=read,
        judge=judge,
        table=table,
        draw=draw,
        profiles={"second": protecting(SECOND_LINE)},
        settings={
            "half_mb": HALF_MB,
            "second_starts_after_s": SETTLE_S,
            "lasts_s": LASTS_S,
            "reservation_ms": str(RESERVATION),
            "protected": PROTECTED,
        },
        inputs=((WORKLOADS / "membomb", SECOND),),
    )
)
