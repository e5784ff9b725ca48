"""Of no paper: what machines of 1 to 256 CPUs get done, if the scheduler's own work takes time.

The simulator runs the scheduler's source. Each CPU has four tasks that work for 0.1 ms and sleep as
long, so each cycle is a sleep and a wake-up where others wait. The costs:

- a callback: 200 ns. In the lab's virtual time it is 950 to 2,100 ns, at 2 ns an instruction (one
  CPU, bpf_stats, tasks that pass messages); here 0.3 ns an instruction.
- the lock of the tree of domains: held for 50 ns, and 30 ns more for each round of a loop under it
  (a step through the tree or along a heap). That is 1 us for a cycle at depth 4, by the same
  measure: there it takes 6,900 ns more than without domains.
- a dispatch queue's lock: held for 150 ns; the cache line of a lock that another CPU had: 100 ns.
  Both are assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from experiments.framework import Mark, Samples, Study, Table
from experiments.framework.marks import at_least, at_most

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "aplomb"
CPUS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
QUICK_CPUS = (1, 64, 256)
COSTS = "--call 200 --line 100 --tree 50 --round 30 --queue 150".split()
PLACES = {
    "plain": "no domains",
    "services": "40 services, depth 3",
    "deep": "one domain, depth 8",
}
# Cycles of 64 CPUs with services, at least as many times one CPU's.
TIMES = 48
WAITING_PERCENT = {64: 3, 256: 8}
# Of the cycles without domains.
FLOOR = 0.97


def command(quick: bool) -> list[str]:
    cpus = ",".join(map(str, QUICK_CPUS if quick else CPUS))
    return ["scaling", *COSTS, "--cpus", cpus, "--length", "20ms" if quick else "200ms"]


def read(printed: Any) -> Samples:
    """samples["aplomb"]["PLACE-CPUS"]"""
    runs = printed["runs"]
    return {OURS: {f"{run['place']}-{run['cpus']}": run for run in runs}}


def value(samples: Samples, place: str, cpus: int, key: str) -> float | None:
    found: Mapping[str, Any] = samples[OURS].get(f"{place}-{cpus}", {})
    return found.get(key)


def ratio(above: float | None, below: float | None) -> float | None:
    return round(above / below, 3) if above is not None and below else None


def judge(samples: Samples) -> list[Mark]:
    def rate(place: str, cpus: int) -> float | None:
        return value(samples, place, cpus, "cycles_per_s")

    marks = [
        at_least(
            "64 CPUs, services: cycles, of one CPU's",
            ratio(rate("services", 64), rate("services", 1)),
            TIMES,
            "x",
        ),
        at_most(
            "64 CPUs, services: locks of the machine for each cycle",
            value(samples, "services", 64, "tree_locks_per_cycle"),
            0,
            "",
        ),
    ]
    for cpus, limit in WAITING_PERCENT.items():
        ppm = value(samples, "services", cpus, "waiting_ppm")
        percent = None if ppm is None else ppm / 1e4
        marks.append(at_most(f"{cpus} CPUs, services: waiting for locks", percent, limit, "%"))
    for cpus in (64, 256):
        for place in ("services", "deep"):
            marks.append(
                at_least(
                    f"{cpus} CPUs, {PLACES[place]}: cycles, of those without domains",
                    ratio(rate(place, cpus), rate("plain", cpus)),
                    FLOOR,
                    "x",
                )
            )
    return marks


def table(samples: Samples) -> Table:
    rows = [
        [
            PLACES[run["place"]],
            run["cpus"],
            round(run["cycles_per_s"]),
            round(run["cycles_per_s"] / run["cpus"]),
            round(run["tree_locks_per_cycle"], 2),
            run["waiting_ppm"] / 1e4,
            run["working_ppm"] / 1e4,
        ]
        for run in samples[OURS].values()
    ]
    headers = ["tasks", "CPUs", "cycles/s", "per CPU", "tree's lock/cycle", "waiting %", "work %"]
    return headers, rows


def draw(samples: Samples) -> Figure:
    """Cycles, and waiting, over the number of CPUs."""
    from experiments.framework import plot

    figure, (cycles, waiting) = plot.grid(1, 2, 4.2, 3.2)
    for place, dash in zip(PLACES, ("-", "--", ":"), strict=True):
        runs = [run for run in samples[OURS].values() if run["place"] == place]
        xs = [run["cpus"] for run in runs]
        style: dict[str, Any] = {
            "color": plot.colour(OURS),
            "linestyle": dash,
            "marker": "o",
            "markersize": 2.5,
        }
        cycles.plot(xs, [run["cycles_per_s"] for run in runs], label=PLACES[place], **style)
        waiting.plot(xs, [run["waiting_ppm"] / 1e4 for run in runs], **style)
    for axis in (cycles, waiting):
        axis.set_xscale("log", base=2)
        axis.set_xlabel("CPUs")
    cycles.set_yscale("log")
    cycles.set_ylabel("sleeps and wake-ups a second")
    waiting.set_ylabel("waiting for locks (% of all CPUs)")
    plot.one_legend(figure, [cycles], 3)
    return figure


EXPERIMENT = Study(
    title="Sleeps and wake-ups on many CPUs",
    figure="no paper",
    about="Four tasks for each simulated CPU work for 0.1 ms, sleep as long, and wake up again. "
    "The scheduler's callbacks and locks take time.",
    command=command,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    subject=OURS,
    settings={"costs": " ".join(COSTS)},
)
