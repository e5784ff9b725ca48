"""Of no paper: what the order of requests costs a program that has a fast disk to itself.

One process reads 4 KB after the other from a disk that answers after 50 us. With the order switched
on nothing should change, since no program of the first groups waits: the tracing programs are not
attached. "Watched" is the same process with a real-time I/O priority, for which they are. With
`account = true` two of them are always attached, so that all requests are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.beside import reports
from experiments.framework.experiment import Profile
from experiments.framework.marks import at_least
from experiments.framework.readers import PROGRAM, Variant, of_scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The first one is measured. The other one is for the load that a step has: a read each second.
DISKS = ("64M,latency=50us", "64M,latency=50us")
SECONDS, QUICK_SECONDS = 10, 3
LEAST = 0.99
VARIANTS = (
    Variant("plain", "eevdf", "none", "EEVDF"),
    Variant("off", "aplomb", "none", "aplomb, order off", profile="unordered"),
    Variant("on", "aplomb", "none", "aplomb, order on", profile="ordered"),
    Variant("counted", "aplomb", "none", "aplomb, all counted", profile="counted"),
    Variant(
        "watched", "aplomb", "none", "aplomb, watched", ("ionice", "-c", "1"), profile="ordered"
    ),
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    steps = []
    for variant in of_scheduler(VARIANTS, scheduler):
        words: list[object] = ["on_raw_disk", "disk0", variant.kind, "-", "-", "-"]
        words += ["beside_flood", 1, "/job/enter", "program", *variant.prefix, "--"]
        words += [PROGRAM, "/dev/disk0", seconds, 4, 1, "--", "/job/enter", "load"]
        words += [PROGRAM, "/dev/disk1", seconds + 20, 4, 1, "every", 1000]
        steps.append(
            Step(variant.name, [str(word) for word in words], seconds + 4, variant.profile)
        )
    return steps


def read(folder: Path) -> dict[str, Any]:
    (program,) = reports(folder / "stdout")
    return {"reads": program["reads"], "us_a_read": round(program["sum_us"] / program["reads"], 3)}


def measured(samples: Samples) -> list[tuple[Variant, Mapping[str, Any]]]:
    found = [(v, samples.get(v.scheduler, {}).get(v.name)) for v in VARIANTS]
    return [(variant, sample) for variant, sample in found if sample is not None]


def judge(samples: Samples) -> list[Mark]:
    reads = {variant.name: sample["reads"] for variant, sample in measured(samples)}
    if "on" not in reads or "off" not in reads:
        return []
    return [
        at_least(
            f"reads with the order on, {LEAST} of those with it off",
            reads["on"],
            round(LEAST * reads["off"]),
            "reads",
        )
    ]


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [variant.title, sample["reads"], sample["us_a_read"]]
        for variant, sample in measured(samples)
    ]
    return ["variant", "reads", "us a read"], rows


def draw(samples: Samples) -> Figure:
    """Reads, a bar for each variant."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, 1, 5.2, 2.4)
    found = measured(samples)
    axes[0].barh([v.title for v, _ in found], [s["reads"] for _, s in found])
    axes[0].set_xlabel("reads")
    figure.suptitle("Reads of 4 KB from a disk that answers after 50 us", fontsize=10)
    return figure


EXPERIMENT = Experiment(
    title="The cost of the order of requests",
    figure="no paper",
    about=f"One process reads 4 KB after the other, past the page cache, for {SECONDS} s, from a "
    "disk that answers after 50 us.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    disks=DISKS,
    profiles={
        "unordered": Profile((), only=True),
        "ordered": Profile((), only=True, config=("[disk]", "order = true")),
        "counted": Profile((), only=True, config=("[disk]", "order = true", "account = true")),
    },
    settings={"seconds": SECONDS, "disks": list(DISKS)},
)
