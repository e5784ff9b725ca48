"""The demonstration of `make run` where the kernel has no sched_ext: a movie through a fork bomb, in the lab.

Boots two guests with a stock Debian kernel, one with its own scheduler and one with aplomb, plays the same movie
beside the same bomb of 50 endless loops, and shows the frame rates. Takes about two minutes on a quiet machine.
"""
from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

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
BLOCKS = " ▁▂▃▄▅▆▇█"


def sparkline(counts: list[int], full: int = FRAMES_PER_S) -> str:
    """One character a second; a full block is the movie's own rate or more."""
    return "".join(BLOCKS[min(len(BLOCKS) - 1, max(0, round(count * (len(BLOCKS) - 1) / full)))] for count in counts)


def picture(samples: dict) -> str:
    """Frame rates over time, one line a scheduler, with the bomb's time below."""
    lines = []
    for scheduler, steps in samples.items():
        movie = next(iter(steps.values()))
        lines.append(f"  {all_schedulers()[scheduler].title:24}|{sparkline(movie['frames_per_second'])}|  "
                     + " ".join(f"{count:2}" for count in movie["frames_per_second"]))
    first, last = (round(movie[key]) for key in ("load_at_s", "load_ends_at_s"))
    lines.append(f"  {'':24} {' ' * first}{'^' * (last - first)}  the bomb: {TASKS} endless loops")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="experiments.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS / "tmp" / "demo", metavar="DIR", help="where the picture goes")
    options = parser.parse_args(arguments)
    try:
        each = experiment.load(f"redline/fork-bomb-{TASKS}")
        load = bomb_loads(TASKS, PHASES.during)["be"]
        each = replace(each, steps=lambda scheduler, _: movies.steps(scheduler, ["heavy"], ["sessions"], [load], PHASES))
        schedulers, _ = choose(each, ["eevdf", "aplomb"], True)
        print(f"A movie of {FRAMES_PER_S} frames a second, which needs a third of the CPU; after {PHASES.before} s, {TASKS} endless\n"
              f"loops start beside it, each in a session of its own. Two guests: Linux's own scheduler, and aplomb.\n", flush=True)
        guest.build_workloads()
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="aplomb-demo-") as keep:
            samples, status = measure(each, schedulers, True, 2, Path(keep))
        svg = draw(each, samples, options.out)
    except ExperimentError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 3
    print(f"\nFrames shown in each second (kernel {status['kernel']}, {time.monotonic() - began:.0f} s):\n\n{picture(samples)}\n")
    rows = [[all_schedulers()[name].title, movie["fewest"], movie["mean_under_load"], movie["longest_gap_ms"]]
            for name, steps in samples.items() for movie in steps.values()]
    print(render(["scheduler", "fewest frames/s", "mean during the bomb", "longest gap ms"], rows))
    print(f"\nThe picture: {svg}")
    smooth = [movie for movie in samples["aplomb"].values()
              if movie["fewest"] >= movies.FEWEST and movie["longest_gap_ms"] <= movies.LONGEST_GAP]
    if not smooth:
        print("demo: the movie did not play smoothly under aplomb", file=sys.stderr)
    return 0 if smooth else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
