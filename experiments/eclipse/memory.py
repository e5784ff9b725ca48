"""Eclipse section 6.4: a domain's working set does not fall below its reservation of memory; what
is above competes as usual.

The same program runs in two domains: it writes to all of its memory now and then. Four bombs
need more memory than there is. One domain has a reservation of more than the program uses. The
paper has no figure for this; it says what the pager does. The variants are stock Linux without
anything, stock Linux with memory.min by hand, and aplomb's reservation. All tasks are best-effort,
and the protection of interactive programs is off: the reservation stands alone.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.frames import read_load
from experiments.framework.marks import at_least, at_most, below
from experiments.framework.memory import (
    BOMB_MB,
    BOMBS,
    GUEST_MB,
    SETTINGS,
    SWAP,
    bombs,
    counted,
    pages_a_second,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWN_MB, RESERVED_MB = 60, 80
# The bombs need about 10 s to go through their memory: what is used more often than that stays
# without a reservation, too.
IDLE_S = 15
TURNS, QUICK_TURNS = 6, 2
SETTLE_S = 4
# A turn that takes longer is one of few: only for limits.
SLOW_TURN_S = 6
DOMAINS = ("reserved", "unreserved")
# (step, scheduler, title, how the domain gets its reservation)
VARIANTS = (
    ("plain", "eevdf", "EEVDF", "-"),
    ("min", "eevdf", f"EEVDF, memory.min {RESERVED_MB} MB", f"min={RESERVED_MB << 20}"),
    ("memory", "aplomb", f"aplomb, memory={RESERVED_MB}M", f"memory={RESERVED_MB}M"),
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    turns = QUICK_TURNS if quick else TURNS
    longest = SETTLE_S + turns * (IDLE_S + SLOW_TURN_S)
    program = ["/job/editor", OWN_MB, IDLE_S, turns]
    return [
        Step(
            name,
            [
                "in_two_domains",
                reserve,
                str(SETTLE_S),
                *(str(word) for word in [*program, "--", *bombs(20 * longest)]),
            ],
            longest + 20,
        )
        for name, of, _, reserve in VARIANTS
        if of == scheduler.name
    ]


def read(folder: Path) -> dict[str, Any]:
    sample: dict[str, Any] = {
        "under_bombs": counted(folder, "load", "after"),
        "bomb_pages_per_s": pages_a_second(read_load(folder / "load"), SETTLE_S),
    }
    for domain in DOMAINS:
        lines = (folder / f"{domain}.out").read_text().splitlines()
        turns = [json.loads(line) for line in lines]
        kept = [int(line) for line in (folder / f"{domain}.bytes").read_text().splitlines()]
        sample[domain] = {
            "ms": [turn["ms"] for turn in turns],
            "major_faults": sum(turn["major_faults"] for turn in turns),
            # The last one may be of a program that ends.
            "least_mb": round(min(kept[:-2] or kept) / (1 << 20), 1) if kept else None,
        }
    return sample


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for sample in samples["aplomb"].values():
        ours, other = sample["reserved"], sample["unreserved"]
        marks += [
            at_least(
                "least memory of the domain with a reservation", ours["least_mb"], OWN_MB, "MB"
            ),
            at_most("its major faults", ours["major_faults"], 0, "faults"),
            below(
                "its longest turn, below the one of the domain without",
                max(ours["ms"], default=None),
                max(other["ms"], default=None),
                "ms",
            ),
            at_least(
                "what is above competes: major faults of the domain without a reservation",
                other["major_faults"],
                1,
                "faults",
            ),
        ]
    return marks


def table(samples: Samples) -> Table:
    rows = []
    for name, scheduler, title, _ in VARIANTS:
        sample: Mapping[str, Any] | None = samples.get(scheduler, {}).get(name)
        if sample is None:
            continue
        for domain in DOMAINS:
            found = sample[domain]
            rows.append(
                [
                    title,
                    domain,
                    found["least_mb"],
                    found["major_faults"],
                    round(statistics.median(found["ms"]), 1) if found["ms"] else None,
                    max(found["ms"], default=None),
                    sample["bomb_pages_per_s"],
                ]
            )
    return [
        "variant",
        "domain",
        "least MB",
        "major faults",
        "median turn ms",
        "longest turn ms",
        "bombs' pages/s",
    ], rows


def draw(samples: Samples) -> Figure:
    """The time of each turn, a panel for each domain."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 2, 4.2, 2.8, sharey=True)
    for axis, domain in zip(axes, DOMAINS):
        for name, scheduler, title, _ in VARIANTS:
            sample = samples.get(scheduler, {}).get(name)
            if sample is None:
                continue
            style = ":" if name == "plain" else "-"
            times = sample[domain]["ms"]
            axis.plot(
                range(1, len(times) + 1), times, style, label=title, color=plot.colour(scheduler)
            )
        axis.set_title(f"domain {domain}")
        axis.set_yscale("log")
        axis.set_xlabel("turn")
    axes[0].set_ylabel("ms")
    figure.suptitle(f"A program of {OWN_MB} MB in two domains, beside {BOMBS} bombs", fontsize=10)
    plot.one_legend(figure, axes, 3)
    return figure


EXPERIMENT = Experiment(
    title="A reservation of memory for a domain",
    figure="Eclipse, section 6.4",
    about=f"In a guest of {GUEST_MB} MB a program in each of two domains writes to all of its "
    f"{OWN_MB} MB each {IDLE_S} s, {TURNS} times; {BOMBS} tasks write to each page of {BOMB_MB} MB "
    "each, again and again.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    settings={
        **SETTINGS,
        "own_mb": OWN_MB,
        "reserved_mb": RESERVED_MB,
        "turns": TURNS,
        "idle_s": IDLE_S,
        "bombs_settle_s": SETTLE_S,
    },
    memory_mb=GUEST_MB,
    swaps=(SWAP,),
)
