"""Eclipse Fig. 9: missed deadlines of an MPEG player over its reservation, beside 8 `onoff`
processes.

The player has 10 read-ahead threads and a decoder card (workloads/card.c): they read a frame from
the disk, work on it and send it to the card, which plays 25 a second and counts the moments, of 200
a second, at which it has nothing to show. The paper does not say how large the card's memory was;
here it holds two frames. Stock Linux knows no reservations: there the player's weight is what gives
it the same part of the CPU as the reservation and its share of the rest do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step, Table, at_most
from experiments.framework.domains import step_words
from experiments.framework.reservation_domains import STYLES, beside_onoffs, colour, lines, title
from experiments.framework.results import read_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ONOFFS = 8
THREADS, FRAMES, WORK_US, BUFFER, DISK_US = 10, 25, 4000, 2, 4000
SECONDS, QUICK_SECONDS, SETTLE_S = 10, 5, 1
RESERVATIONS = dict.fromkeys(("mtr", "wrr", "plain"), tuple(range(0, 61, 5)))
QUICK_RESERVATIONS = (0, 15, 60)
POLICIES = ("mtr", "wrr")


def weight_for(percent: int) -> int:
    """The cpu.weight that asks for the same part of the CPU beside 8 domains of 100: what is
    reserved, and an even share of the rest (section 4)."""
    part = percent / 100 + (1 - percent / 100) / (ONOFFS + 1)
    return round(100 * ONOFFS * part / (1 - part))


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    seconds = QUICK_SECONDS if quick else SECONDS
    program = ["/job/card", "/dev/nullb0", *map(str, (THREADS, FRAMES, WORK_US, BUFFER, seconds))]
    steps = []
    for policy in POLICIES if scheduler.name == "aplomb" else ("plain",):
        for percent in QUICK_RESERVATIONS if quick else RESERVATIONS[policy]:
            domains = beside_onoffs(
                program,
                ONOFFS,
                policy,
                percent,
                weight_for(percent) if policy == "plain" else 100,
                late=True,
            )
            steps.append(
                Step(
                    f"{policy}-{percent}",
                    step_words(domains, SETTLE_S, 1000, 0, disk_us=DISK_US),
                    seconds + SETTLE_S + 2,
                )
            )
    return steps


def read(folder: Path) -> dict[str, Any]:
    return read_json(folder / "eclipse-subject.out")


def smallest(points: Sequence[tuple[int, Any]]) -> int | None:
    """The smallest reservation from which on no deadline was missed; None: not the largest that was
    tried."""
    enough = None
    for percent, s in reversed(points):
        if s["underflows"]:
            break
        enough = percent
    return enough


def not_enough(points: Sequence[tuple[int, Any]]) -> int | None:
    """The largest reservation with which a deadline was missed: what is needed is more than
    that."""
    return max((percent for percent, s in points if s["underflows"]), default=None)


def judge(samples: Samples) -> list[Mark]:
    points = {
        policy: points for scheduler, policy, points in lines(samples) if scheduler == "aplomb"
    }
    enough, short = (
        smallest(points["mtr"]),
        not_enough(points["wrr"]) or 0,
    )  # WRR's is more than `short`
    if enough is None:  # more than the largest that was tried: told as that and one
        enough = points["mtr"][-1][0] + 1
    return [
        at_most(
            "smallest reservation without a missed deadline, MTR-LS, at most a third of WRR's",
            enough,
            round(short / 3, 2),
            "%",
            f"{short} % was not enough for WRR"
            + (f", {wrr} % was" if (wrr := smallest(points["wrr"])) is not None else ""),
        )
    ]


def table(samples: Samples) -> Table:
    rows = [
        [
            title(scheduler, policy) + (", by weight" if policy == "plain" else ""),
            percent,
            s["underflows"],
            s["per_second"],
            s["cpu_s"],
        ]
        for scheduler, policy, points in lines(samples)
        for percent, s in points
    ]
    return ["scheduler", "reserved %", "underflows", "a second, of 200", "CPU s"], rows


def draw(samples: Samples) -> Figure:
    from experiments.framework import plot

    figure, (axis,) = plot.grid(1, 1, 6.4, 3.6)
    for scheduler, policy, points in lines(samples):
        axis.plot(
            [p for p, _ in points],
            [s["per_second"] for _, s in points],
            STYLES[policy],
            markersize=4,
            color=colour(scheduler, policy),
            label=title(scheduler, policy) + (", by weight" if policy == "plain" else ""),
        )
    axis.set_ylim(bottom=0)
    axis.set_xlabel("CPU reservation (%)")
    axis.set_ylabel("buffer underflows a second")
    figure.suptitle(f"An MPEG player with a decoder card beside {ONOFFS} onoff", fontsize=10)
    plot.one_legend(figure, [axis], 3)
    return figure


EXPERIMENT = Experiment(
    title="An MPEG player's missed deadlines, by reservation",
    figure="Eclipse, Fig. 9",
    about=f"A player with a card that shows {FRAMES} frames a second runs for {SECONDS} s beside "
    f"{ONOFFS} onoff processes, each in a domain "
    "of its own, with 0 to 60 % of the CPU reserved.",
    steps=make,
    read=read,
    judge=judge,
    table=table,
    draw=draw,
    schedulers=("eevdf", "aplomb"),
    settings={
        "seconds": SECONDS,
        "threads": THREADS,
        "frames_per_second": FRAMES,
        "cpu_us_a_frame": WORK_US,
        "card_holds_frames": BUFFER,
        "disk_us": DISK_US,
        "onoff": ONOFFS,
        "weights": {f"{p} %": weight_for(p) for p in RESERVATIONS["plain"]},
    },
)
