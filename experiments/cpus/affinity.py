"""Of no paper: loops that may run on some of the CPUs only, beside a free loop for each CPU.

By the arithmetic (domains.divide) all loops of equal weight have the same, as long as the CPUs of
the mask are enough for that. EEVDF has a queue for each CPU and balances the lengths of these, so
a loop's part depends on where it is.

The marks divide all of the CPUs. The kernel's own work takes 2 to 6 % of the emulated ones, under
each scheduler, so the table also divides what all loops had together: that says whether the masked
loops have less than the free ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table
from experiments.framework.domains import divide
from experiments.framework.errors import ExperimentError
from experiments.framework.marks import at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CPUS = 8
SECONDS, QUICK_SECONDS = 3, 1
# The emulated CPUs take turns on one of the host's, so that a guest's second takes long.
STEP_S = 12
LIMIT_PERCENT = 5.0


@dataclass(frozen=True)
class Case:
    """Loops on the CPUs `first` to `last`. weight: of a domain of their own beside that of the free
    ones, both with a weight; 0: they are in one domain with these, or in none."""

    name: str
    first: int
    last: int
    loops: int
    domain: bool = False
    weight: int = 0

    @property
    def mask(self) -> str:
        return f"{self.first}-{self.last}"

    @property
    def title(self) -> str:
        where = ("one domain" if self.domain else "no domains") if not self.weight else "container"
        return f"{self.loops} loops on {self.mask}, {where}"

    def words(self, seconds: int) -> list[str]:
        if self.weight:
            groups = ["free", f"box,weight={self.weight}"]
        else:
            groups = ["apps" if self.domain else "-"] * 2
        return ["masked", *groups, self.mask, str(self.loops), str(seconds)]

    def due(self) -> float:
        """CPUs for each loop."""
        width = self.last - self.first + 1
        if self.weight:
            shares = divide(CPUS, {"box": self.weight, "free": 100}, {"box": width, "free": CPUS})
            return shares["box"] / self.loops
        each = CPUS / (self.loops + CPUS)
        return min(each, width / self.loops)


CASES = (
    Case("six-on-four", 2, 5, 6),
    Case("four-on-four", 4, 7, 4),
    Case("nine-on-seven", 1, 7, 9),
    Case("six-on-four-domain", 2, 5, 6, domain=True),
    Case("four-on-four-domain", 4, 7, 4, domain=True),
    Case("nine-on-seven-domain", 1, 7, 9, domain=True),
    Case("container", 2, 5, 6, weight=50),
)


def make(_: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    return [Step(case.name, case.words(seconds), STEP_S) for case in CASES]


def read(folder: Path) -> Mapping[str, Any]:
    file = folder / "masked"
    try:
        ppm = [int(line) for line in file.read_text().split()]
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{file}: {error}") from error
    if len(ppm) <= CPUS:
        raise ExperimentError(f"{file}: {len(ppm)} loops, more than {CPUS} expected")
    return {"ppm": ppm[:-CPUS], "free_ppm": ppm[-CPUS:]}


@dataclass(frozen=True)
class Measured:
    """What loops had of a CPU each, ppm."""

    case: Case
    scheduler: str
    ppm: Sequence[int]
    free_ppm: Sequence[int]

    def off(self, cpus: float = CPUS) -> float:
        """By how many percent of its due the loop that is furthest off has more or less, if `cpus`
        are divided."""
        due = self.case.due() * 1e6 * cpus / CPUS
        return round(max((abs(each - due) for each in self.ppm), default=due) / due * 100, 2)

    @property
    def all_had(self) -> float:
        """CPUs."""
        return (sum(self.ppm) + sum(self.free_ppm)) / 1e6


def measured(samples: Samples) -> list[Measured]:
    return [
        Measured(case, scheduler, **steps[case.name])
        for case in CASES
        for scheduler, steps in samples.items()
        if case.name in steps
    ]


def judge(samples: Samples) -> list[Mark]:
    return [
        at_most(f"{each.case.title}: off what each is due by", each.off(), LIMIT_PERCENT, "%")
        for each in measured(samples)
        if each.scheduler == "aplomb"
    ]


def table(samples: Samples) -> Table:
    rows: list[list[object]] = [
        [
            each.case.title,
            each.scheduler,
            round(each.case.due(), 3),
            round(min(each.ppm) / 1e6, 3),
            round(max(each.ppm) / 1e6, 3),
            each.off(),
            round(each.all_had, 2),
            each.off(each.all_had),
        ]
        for each in measured(samples)
    ]
    return ["loops", "scheduler", "due", "least", "most", "off %", "all had", "off % of that"], rows


def draw(samples: Samples) -> Figure:
    """Each loop's part, and what it is due."""
    from experiments.framework import plot

    figure, axes = plot.grid(1, len(CASES), 1.9, 2.8, sharey=True)
    names = list(samples)
    for axis, case in zip(axes, CASES, strict=True):
        axis.axhline(case.due(), color="0.5", lw=0.8)
        for each in measured(samples):
            if each.case != case:
                continue
            axis.scatter(
                [names.index(each.scheduler)] * len(each.ppm),
                [ppm / 1e6 for ppm in each.ppm],
                s=10,
                color=plot.colour(each.scheduler),
                label=plot.title(each.scheduler).split(",")[0],
            )
        axis.set_xticks([])
        axis.set_title(case.title.replace(", ", ",\n"), fontsize=8)
    axes[0].set_ylabel("CPUs for each loop")
    axes[0].set_ylim(bottom=0)
    plot.one_legend(figure, axes, 4)
    return figure


EXPERIMENT = Experiment(
    title="Loops that may run on some CPUs only",
    figure="no paper",
    about=f"Loops with an affinity beside {CPUS} free loops on {CPUS} CPUs in virtual time, for "
    f"{SECONDS} s from 0.1 s after their start on: without domains, in one domain with the free "
    "loops, and as a container with half of their weight.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    machine="timing-smp",
    cpus=CPUS,
    schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
    settings={"cpus": CPUS, "seconds": SECONDS},
)
