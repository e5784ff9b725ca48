"""The demonstration of `make run` where the kernel has no sched_ext: a movie through a fork bomb.

Boots two guests of the lab with a stock Debian kernel: one keeps the kernel's own scheduler, the
other runs aplomb. Each plays the same movie beside the same bomb of 50 endless loops. The
demonstration prints the frame rates and draws them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.framework import experiment, guest, movies
from experiments.framework.bomb import bomb_loads
from experiments.framework.errors import ExperimentError
from experiments.framework.frames import FRAMES_PER_S
from experiments.framework.results import RESULTS
from experiments.framework.runner import choose, draw, measure
from experiments.framework.schedulers import all_schedulers
from experiments.framework.table import render

TASKS = 50
PHASES = movies.Phases(3, 9, 3)
SHORT = movies.Phases(2, 4, 1)
BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(counts: list[int], full: int = FRAMES_PER_S) -> str:
    """One character a second; a full block is the movie's own rate or more."""
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[min(top, max(0, round(count * top / full)))] for count in counts)


def picture(samples: dict[str, dict[str, Any]]) -> str:
    """Frame rates over time, one line a scheduler, with the bomb's time below."""
    lines = []
    for scheduler, steps in samples.items():
        movie = next(iter(steps.values()))
        counts = movie["frames_per_second"]
        lines.append(
            f"  {all_schedulers()[scheduler].title:24}|{sparkline(counts)}|  "
            + " ".join(f"{count:2}" for count in counts)
        )
    first, last = (round(movie[key]) for key in ("load_at_s", "load_ends_at_s"))
    lines.append(f"  {'':24} {' ' * first}{'^' * (last - first)}  the bomb: {TASKS} endless loops")
    return "\n".join(lines)


@dataclass(frozen=True)
class Played:
    """What the two guests left: each movie by scheduler and step, and the conditions."""

    samples: dict[str, dict[str, Any]]
    kernel: str
    seconds: float
    svg: Path


def play(phases: movies.Phases, out: Path) -> Played:
    """Boots both guests, plays the movie in each and draws the picture. Raises ExperimentError."""
    each = experiment.load_lab(f"redline/fork-bomb-{TASKS}")
    load = bomb_loads(TASKS, phases.during)["be"]
    each = replace(
        each,
        steps=lambda scheduler, _: movies.steps(scheduler, ["heavy"], ["sessions"], [load], phases),
    )
    schedulers, _ = choose(each, ["eevdf", "aplomb"], True)
    guest.build_workloads()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="aplomb-demo-") as keep:
        samples, status, _ = measure(each, schedulers, True, 2, Path(keep))
    return Played(samples, status["kernel"], time.monotonic() - began, draw(each, samples, out))


def report(played: Played) -> str:
    """The picture for the terminal, the table, and where the drawn picture is."""
    rows = [
        [
            all_schedulers()[name].title,
            movie["fewest"],
            movie["mean_under_load"],
            movie["longest_gap_ms"],
        ]
        for name, steps in played.samples.items()
        for movie in steps.values()
    ]
    table = render(["scheduler", "fewest frames/s", "mean during the bomb", "longest gap ms"], rows)
    return (
        f"\nFrames shown in each second (kernel {played.kernel}, {played.seconds:.0f} s):\n\n"
        f"{picture(played.samples)}\n\n{table}\n\nThe picture: {played.svg}"
    )


def is_smooth(played: Played) -> bool:
    """Whether every movie under aplomb kept its frame rate and had no long gap."""
    ours = played.samples["aplomb"].values()
    return bool(ours) and all(
        movie["fewest"] >= movies.FEWEST and movie["longest_gap_ms"] <= movies.LONGEST_GAP
        for movie in ours
    )


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="experiments.demo", description=__doc__)
    parser.add_argument(
        "--out",
        type=Path,
        default=RESULTS / "tmp" / "demo",
        metavar="DIR",
        help="where the picture goes",
    )
    parser.add_argument(
        "--short", action="store_true", help="a shorter movie: what `make test` plays"
    )
    options = parser.parse_args(arguments)
    phases = SHORT if options.short else PHASES
    print(
        f"A movie of {FRAMES_PER_S} frames a second, which needs a third of the CPU.\n"
        f"After {phases.before} s, {TASKS} endless loops start beside it, each in a session.\n"
        "Two guests: one with Linux's own scheduler, one with aplomb.\n",
        flush=True,
    )
    try:
        played = play(phases, options.out)
    except ExperimentError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 3
    print(report(played))
    if not is_smooth(played):
        print("demo: the movie did not play smoothly under aplomb", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
