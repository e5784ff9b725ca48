"""QLinux Fig. 13(a): what the depth of the tree costs, by the loops that an Inf process gets
through.

The domain is at depth 1 to 16; nothing is beside it, as in the paper ("alone"). There a solitary
process is hardly ever chosen anew, so the same is done with two domains at that depth that share
the CPU ("two"): every turn of theirs is a choice at each level; and with two processes there that
pass a byte to each other ("switches"): every switch is a wake-up, a sleep and a choice, and its
time is told beside.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_least
from experiments.framework.domains import Domain, loops, read_samples, step_words
from experiments.framework.results import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DEPTHS, QUICK_DEPTHS = (1, 2, 4, 8, 12, 16), (1, 16)
SECONDS, QUICK_SECONDS, SETTLE_S, INTERVAL_MS = 10, 5, 1, 1000
SWITCHES = 10000
KINDS = {"alone": "one infinite loop", "two": "two domains, a loop each"}
FLOOR = 0.99


def path(depth: int, leaf: str) -> str:
    return "/".join([*[f"d{k}" for k in range(1, depth)], leaf])


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    steps = []
    for depth in QUICK_DEPTHS if quick else DEPTHS:
        kinds = {
            "alone": [loops(path(depth, "leaf"))],
            "two": [loops(path(depth, "leaf")), loops(path(depth, "second"))],
        }
        steps += [
            Step(
                f"{kind}-{depth}",
                step_words(domains, SETTLE_S, INTERVAL_MS, seconds * 1000 // INTERVAL_MS),
                seconds + SETTLE_S + 1,
            )
            for kind, domains in kinds.items()
        ]
        switching = Domain(path(depth, "leaf"), ("/job/pingpong", str(SWITCHES)), keys=("wait=1",))
        steps.append(Step(f"switches-{depth}", step_words([switching], 0, INTERVAL_MS, 0), 2))
    return steps


def read(folder: Path) -> dict[str, Any]:
    if folder.name.startswith("switches-"):
        return read_json(next(folder.glob("*.out")))
    sample = read_samples(folder)
    return {
        "turns": sum(d["turns"][-1] for d in sample["domains"].values()),
        "seconds": sample["at_s"][-1],
    }


def rate(step: Mapping[str, Any]) -> float:
    return float(step["turns"] / step["seconds"])


def of(steps: Mapping[str, Any], kind: str) -> list[tuple[int, Any]]:
    """Depth and sample, in order of depth."""
    return sorted(
        (int(name.rpartition("-")[2]), s)
        for name, s in steps.items()
        if name.startswith(f"{kind}-")
    )


def ratio(steps: Mapping[str, Any], kind: str) -> float:
    """Loops at the greatest depth against depth 1."""
    return round(rate(steps[f"{kind}-{DEPTHS[-1]}"]) / rate(steps[f"{kind}-1"]), 5)


def judge(samples: Samples) -> list[Mark]:
    steps = samples["aplomb"]
    return [
        at_least("throughput at depth 16 against depth 1", ratio(steps, "alone"), FLOOR, "x"),
        at_least(
            "the same with two domains that take turns, no worse than EEVDF's",
            ratio(steps, "two"),
            ratio(samples["eevdf"], "two") if "eevdf" in samples else None,
            "x",
        ),
    ]


def table(samples: Samples) -> Table:
    rows = []
    for scheduler, steps in samples.items():
        switches = dict(of(steps, "switches"))
        two = dict(of(steps, "two"))
        first = rate(steps["alone-1"]), rate(steps["two-1"])
        for depth, alone in of(steps, "alone"):
            rows.append(
                [
                    depth,
                    scheduler,
                    round(rate(alone)),
                    round(rate(alone) / first[0], 5),
                    round(rate(two[depth])),
                    round(rate(two[depth]) / first[1], 5),
                    switches[depth]["ns_per_switch"] / 1000,
                ]
            )
    return [
        "depth",
        "scheduler",
        "alone, loops/s",
        "against depth 1",
        "two, loops/s",
        "against depth 1 ",
        "switch us",
    ], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, (left, right) = plot.grid(1, 2, 4.2, 3.0)
    for scheduler, steps in samples.items():
        for kind, style in (("alone", "o-"), ("two", "s--")):
            found = of(steps, kind)
            left.plot(
                [d for d, _ in found],
                [rate(s) / rate(found[0][1]) for _, s in found],
                style,
                markersize=3,
                color=plot.colour(scheduler),
                label=f"{plot.title(scheduler).split(',')[0]}, {KINDS[kind]}",
            )
        found = of(steps, "switches")
        right.plot(
            [d for d, _ in found],
            [s["ns_per_switch"] / 1000 for _, s in found],
            "o-",
            markersize=3,
            color=plot.colour(scheduler),
        )
    left.axhline(FLOOR, color="black", linewidth=0.6, linestyle=":")
    left.set_ylabel("loops, depth 1 = 1")
    right.set_ylabel("microseconds a switch")
    right.set_ylim(bottom=0)
    for axis in (left, right):
        axis.set_xlabel("depth of the domain")
    figure.suptitle("The tree's depth (dotted: the mark)", fontsize=10)
    plot.one_legend(figure, [left], 2)
    return figure


EXPERIMENT = Experiment(
    title="What the depth of the tree costs",
    figure="QLinux, Fig. 13(a)",
    about=f"A domain at depth 1 to 16 with an infinite loop, {SECONDS} s; two such domains "
    "beside each other; and a pipe ping-pong of "
    f"{SWITCHES} switches there.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    settings={"depths": list(DEPTHS), "seconds": SECONDS, "settle_s": SETTLE_S},
)
