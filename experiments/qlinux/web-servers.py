"""QLinux Fig. 6(b): two web servers in two domains, both overloaded: CPU and requests in proportion
to the weights.

Two nginx, of one process each, compress a text page for every request, so that the CPU is what they
lack. Two ab, of 8 connections each, ask as fast as they are answered, over the loopback, from a
third domain that always has enough. The kernel charges the network's own work to the task that it
interrupts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_most
from experiments.framework.domains import points_off, read_samples, received

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATIOS, QUICK_RATIOS = (1, 2, 4), (4,)
SECONDS, SETTLE_S, INTERVAL_MS, CLIENTS = 10, 2, 500, 8
ASKING_S = 13  # the clients ask for longer than is sampled
SERVERS = ("web0", "web1")


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    return [
        Step(
            f"1-{ratio}",
            [
                "web",
                *map(
                    str,
                    (
                        SETTLE_S,
                        INTERVAL_MS,
                        SECONDS * 1000 // INTERVAL_MS,
                        ASKING_S,
                        CLIENTS,
                        100,
                        100 * ratio,
                    ),
                ),
            ],
            ASKING_S + SETTLE_S + 2,
        )
        for ratio in (QUICK_RATIOS if quick else RATIOS)
    ]


def read(folder: Path) -> dict[str, Any]:
    sample = read_samples(folder)
    asked = [(folder / f"clients-c{number}.out").read_text() for number in range(2)]

    def said(text: str, what: str) -> float:
        found = re.search(rf"^{what}: +([\d.]+)", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    if any(said(text, "Non-2xx responses") for text in asked) or not all(
        said(text, "Complete requests") for text in asked
    ):
        raise ValueError(f"requests failed: {asked}")
    return {
        "at_s": sample["at_s"],
        "domains": {path: {"cpu_s": d["cpu_s"]} for path, d in sample["domains"].items()},
        "requests_per_s": [said(text, "Requests per second") for text in asked],
        "document_bytes": [said(text, "Document Length") for text in asked],
    }


def parts(sample: Mapping[str, Any], ratio: int) -> tuple[float, float, float]:
    """The second server's part of both servers' CPU time, and of the requests, and what it asked
    for."""
    cpu = received({"domains": {path: sample["domains"][path] for path in SERVERS}})["web1"]
    requests = sample["requests_per_s"]
    return cpu, requests[1] / sum(requests), ratio / (1 + ratio)


def judge(samples: Samples) -> list[Mark]:
    marks = []
    for step, sample in samples["aplomb"].items():
        ratio = int(step.partition("-")[2])
        cpu, requests, asked = parts(sample, ratio)
        title = step.replace("-", ":")
        off = max((points_off(cpu, asked), points_off(1 - cpu, 1 - asked)), key=abs)
        marks.append(
            at_most(
                f"CPU of the servers against what they asked for, {title}, off 100 by",
                round(abs(off), 3),
                0.5,
                "points",
            )
        )
        # A wide limit: requests differ in CPU time, and ab counts from its own start to its end.
        off = max((points_off(requests, asked), points_off(1 - requests, 1 - asked)), key=abs)
        marks.append(
            at_most(
                f"requests served against what they asked for, {title}, off 100 by",
                round(abs(off), 3),
                5,
                "points",
            )
        )
    return marks


def table(samples: Samples) -> Table:
    rows = []
    for scheduler, steps in samples.items():
        for step, sample in steps.items():
            cpu, requests, asked = parts(sample, int(step.partition("-")[2]))
            seconds = sample["at_s"][-1]
            rows.append(
                [
                    step.replace("-", ":"),
                    scheduler,
                    *(100 * sample["domains"][path]["cpu_s"][-1] / seconds for path in SERVERS),
                    100
                    * sum(
                        d["cpu_s"][-1]
                        for p, d in sample["domains"].items()
                        if p.startswith("clients/")
                    )
                    / seconds,
                    *sample["requests_per_s"],
                    100 * asked,
                    100 * cpu,
                    100 * requests,
                ]
            )
    return [
        "weights",
        "scheduler",
        "first server CPU %",
        "second %",
        "clients %",
        "first requests/s",
        "second ",
        "second asked %",
        "its CPU %",
        "its requests %",
    ], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, (left, right) = plot.grid(1, 2, 4.2, 3.0)
    shown = list(next(iter(samples.values())))
    width = 0.8 / (2 * len(samples))
    for number, (scheduler, steps) in enumerate(samples.items()):
        for k in range(2):
            places = [i + (2 * number + k + 0.5) * width - 0.4 for i in range(len(steps))]
            label = f"{plot.title(scheduler).split(',')[0]}, {('first', 'second')[k]} server"
            left.bar(
                places,
                [
                    100 * s["domains"][SERVERS[k]]["cpu_s"][-1] / s["at_s"][-1]
                    for s in steps.values()
                ],
                width * 0.9,
                color=plot.colour(scheduler),
                alpha=1 if k else 0.5,
                label=label,
            )
            right.bar(
                places,
                [s["requests_per_s"][k] for s in steps.values()],
                width * 0.9,
                color=plot.colour(scheduler),
                alpha=1 if k else 0.5,
            )
    for axis, what in ((left, "CPU (%)"), (right, "requests a second")):
        axis.set_xticks(range(len(shown)), [step.replace("-", ":") for step in shown])
        axis.set_ylabel(what)
        axis.set_xlabel("weights")
    figure.suptitle("Two overloaded web servers in two domains", fontsize=10)
    plot.one_legend(figure, [left], 2)
    return figure


EXPERIMENT = Experiment(
    title="Two overloaded web servers",
    figure="QLinux, Fig. 6(b)",
    about="Two nginx that compress a page for each request, in domains of weights 1:1 to 1:4, "
    f"and two ab with {CLIENTS} connections each in a "
    f"third; sampled for {SECONDS} s.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "scx_bpfland", "scx_lavd", "aplomb"),
    settings={
        "seconds": SECONDS,
        "settle_s": SETTLE_S,
        "connections": CLIENTS,
        "asking_s": ASKING_S,
    },
)
