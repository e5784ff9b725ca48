"""QLinux Figs. 5(a) and (b): shares of the CPU by weight, between two domains that always have
something to run.

On two CPUs each domain has a thread for each of them; and one pair is infeasible on purpose: a
domain of nine tenths with a single thread can use one CPU of the two, no more, and the arithmetic
(domains.asked) says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .domains import (
    Domain,
    asked,
    cpus_title,
    loops,
    points_off,
    read_samples,
    received,
    step_words,
)
from .experiment import Experiment, Samples, Step, Table
from .marks import Mark, at_most
from .schedulers import Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATIOS = (1, 2, 4, 9)
QUICK_RATIOS = (1, 9)
SECONDS, SETTLE_S, INTERVAL_MS = 10, 2, 500


def pairs(cpus: int, quick: bool = False) -> dict[str, list[Domain]]:
    """The domains of each step."""
    found = {
        f"1-{ratio}": [loops("one", 100, cpus), loops("other", 100 * ratio, cpus)]
        for ratio in (QUICK_RATIOS if quick else RATIOS)
    }
    if cpus > 1:
        found["infeasible"] = [loops("one", 100, cpus), loops("other", 900, 1)]
    return found


def title(step: str) -> str:
    return "1:9, the heavy one with one thread" if step == "infeasible" else step.replace("-", ":")


def wanted(step: str, cpus: int) -> dict[str, float]:
    """Parts of the machine."""
    return {path: share / cpus for path, share in asked(pairs(cpus)[step], cpus).items()}


def off(samples: Samples, scheduler: str, step: str, cpus: int) -> dict[str, float]:
    """Points by which each domain is off what it asked for."""
    got, should = received(samples[scheduler][step]), wanted(step, cpus)
    return {path: points_off(got[path], should[path]) for path in should}


def second_off(sample: Mapping[str, Any], should: Mapping[str, float]) -> float:
    """By how many percent of the machine a domain is off in its worst second; one begins with each
    sample."""
    step = 1000 // INTERVAL_MS
    times = {path: d["cpu_s"] for path, d in sample["domains"].items()}
    worst = 0.0
    for i in range(len(sample["at_s"]) - step):
        ran = {path: cpu[i + step] - cpu[i] for path, cpu in times.items()}
        all_ran = sum(ran.values())
        for path, part in should.items():
            got = ran[path] / all_ran if all_ran else 0.0
            worst = max(worst, abs(100 * (got - part)))
    return worst


def shares(
    cpus: int, limit: float, machine: str, figure: str, second_limit: float | None = None
) -> Experiment:
    """limit: percent of its share that a domain may be off. second_limit: percent of the machine
    that it may be off in any second; None: that is not judged."""

    def make(scheduler: Scheduler, quick: bool) -> list[Step]:
        return [
            Step(
                name,
                step_words(domains, SETTLE_S, INTERVAL_MS, SECONDS * 1000 // INTERVAL_MS),
                SECONDS + SETTLE_S + 1,
            )
            for name, domains in pairs(cpus, quick).items()
        ]

    def judge(samples: Samples) -> list[Mark]:
        marks = []
        for step in samples["aplomb"]:
            worst = max(off(samples, "aplomb", step, cpus).values(), key=abs)
            marks.append(
                at_most(
                    f"share received against share asked, {title(step)}, off 100 by",
                    round(abs(worst), 3),
                    limit,
                    "points",
                )
            )
            if second_limit is not None:
                seconds = second_off(samples["aplomb"][step], wanted(step, cpus))
                marks.append(
                    at_most(
                        f"share of the machine in the worst second, {title(step)}, off by",
                        round(seconds, 3),
                        second_limit,
                        "points",
                    )
                )
        return marks

    def table(samples: Samples) -> Table:
        rows = []
        for scheduler, steps in samples.items():
            for step, sample in steps.items():
                got, should, by = (
                    received(sample),
                    wanted(step, cpus),
                    off(samples, scheduler, step, cpus),
                )
                turns = [sample["domains"][path]["turns"][-1] for path in ("one", "other")]
                rows.append(
                    [
                        title(step),
                        scheduler,
                        100 * should["one"],
                        100 * got["one"],
                        by["one"],
                        100 * should["other"],
                        100 * got["other"],
                        by["other"],
                        round(turns[1] / turns[0], 3),
                    ]
                )
        return [
            "weights",
            "scheduler",
            "first asked %",
            "got %",
            "points off",
            "second asked %",
            "got %",
            "points off",
            "loops, second by first",
        ], rows

    def draw(samples: Samples) -> Figure:
        """Left: loops over time at 1:4 (or what there is); right: loops of both for each pair of
        weights."""
        from . import plot

        figure, (left, right) = plot.grid(1, 2, 4.4, 3.2)
        shown = next(iter(samples.values()))
        at = "1-4" if "1-4" in shown else list(shown)[-1]
        width = 0.8 / (2 * len(samples))
        for number, (scheduler, steps) in enumerate(samples.items()):
            name = plot.title(scheduler).split(",")[0]
            for path, style in (("one", "--"), ("other", "-")):
                d = steps[at]["domains"][path]
                left.plot(
                    steps[at]["at_s"],
                    [t / 1e6 for t in d["turns"]],
                    style,
                    color=plot.colour(scheduler),
                    label=f"{name}, {'lighter' if path == 'one' else 'heavier'} domain",
                )
            for k, path in enumerate(("one", "other")):
                right.bar(
                    [i + (2 * number + k + 0.5) * width - 0.4 for i in range(len(steps))],
                    [s["domains"][path]["turns"][-1] / 1e6 for s in steps.values()],
                    width * 0.9,
                    color=plot.colour(scheduler),
                    alpha=1 if k else 0.5,
                )
        left.set_xlabel("time (s)")
        left.set_ylabel("loops (millions)")
        left.set_title(f"progress at {title(at)}")
        right.set_xticks(
            range(len(shown)), [title(step).replace(", ", ",\n") for step in shown], fontsize=7
        )
        right.set_title(f"loops in {SECONDS} s, by weights")
        figure.suptitle(
            f"Two domains with infinite loops on {cpus_title(cpus, machine)}", fontsize=10
        )
        plot.one_legend(figure, [left], 2)
        return figure

    return Experiment(
        title=f"Shares by weight on {cpus_title(cpus, machine)}",
        figure=figure,
        about="Two domains with weights 1:1 to 1:9, each with "
        f"{'an infinite loop' if cpus == 1 else f'{cpus} infinite loops'}, for "
        f"{SECONDS} s after {SETTLE_S} s. The CPU time is the processes' own clocks'.",
        steps=make,
        read=read_samples,
        judge=judge,
        table=table,
        draw=draw,
        machine=machine,
        cpus=None if cpus == 1 else cpus,
        schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
        settings={
            "seconds": SECONDS,
            "settle_s": SETTLE_S,
            "ratios": [f"1:{r}" for r in RATIOS],
            "peers": "schedulers of the scx collection do not honour cpu.weight",
        },
    )
