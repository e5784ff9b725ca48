"""A movie beside memory bombs: the steps, samples, table and picture that redline/memory-bomb and
redline/no-reserve share.

The light clip plays in a session and a cgroup of its own; some seconds later four bombs start.

The root file system is persistent memory: a page of a file that was evicted costs a copy and no
wait. What the player waits for is its own memory in swap, and direct reclaim.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .experiment import Samples, Step, Table
from .frames import FRAMES_PER_S, STARTUP_S, read_movie
from .memory import (
    BOMB_MB,
    BOMBS,
    COLUMNS,
    FAULTS,
    Variant,
    bombs,
    by_hand,
    cells,
    counted,
    measured,
    of_scheduler,
    program,
    shortage,
)
from .movies import CLIPS, FEWEST, Phases
from .schedulers import Reservation, Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = Phases(5, 30, 8)
QUICK_LENGTHS = Phases(3, 20, 4)
# Until the bombs have taken all free memory.
SETTLE_S = 4
# The player of this clip needs 4 % of the CPU; Redline's Table 1 has 5:30 for mplayer. Twice as
# much, so that what is missing is memory.
RESERVATION = Reservation(10000, 30000)
FILM_LINE = f"/usr/bin/mplayer:iact:{RESERVATION}:IR:-:-"
PROTECTED = "60M"
STOCK = by_hand(PROTECTED, "player at nice -20")
SETTINGS = {
    "phases_s": [LENGTHS.before, LENGTHS.during, LENGTHS.after],
    "reservation_ms": str(RESERVATION),
    "protected": PROTECTED,
    "bombs_settle_s": SETTLE_S,
}


def steps(variants: Sequence[Variant], scheduler: Scheduler, quick: bool) -> list[Step]:
    phases = QUICK_LENGTHS if quick else LENGTHS
    words = [
        "movie",
        CLIPS["light"].file,
        "sessions",
        STARTUP_S,
        phases.before,
        phases.during,
        phases.after,
        *program(*scheduler.prefix(RESERVATION)),
        "--",
        *bombs(phases.during),
    ]
    length = STARTUP_S + phases.before + phases.during + phases.after + 20
    return [variant.step(words, length) for variant in of_scheduler(variants, scheduler)]


def read(folder: Path) -> dict[str, Any]:
    movie = read_movie(folder)
    lost = sum(1 for frames in movie.per_second if frames < FEWEST)
    return {
        **movie.as_json(),
        "bad_seconds": lost,
        # The player's faults count from the phase "before" on, 2 s after its first frame.
        "player_major_faults": counted(folder, "before", "end")[FAULTS],
        "player_major_faults_before_bombs": counted(folder, "before", "load")[FAULTS],
        **shortage(folder, movie.load, SETTLE_S),
    }


def table(variants: Sequence[Variant], samples: Samples) -> Table:
    rows = [
        [
            variant.title,
            movie["fewest"],
            movie["bad_seconds"],
            movie["longest_gap_ms"],
            movie["player_major_faults"],
            movie["reserve_mb"],
            *cells(movie),
        ]
        for variant, movie in measured(variants, samples)
    ]
    return [
        "variant",
        "fewest frames/s",
        f"s below {FEWEST}",
        "longest gap ms",
        "player's major faults",
        "MB from min to low",
        *COLUMNS,
    ], rows


def draw(variants: Sequence[Variant], samples: Samples, title: str) -> Figure:
    """Frames a second over time, a row for each variant, as in Redline's Figs. 7 and 8."""
    from . import plot

    found = list(measured(variants, samples))
    figure, axes = plot.grid(len(found), 1, 6.4, 1.5, sharex=True, sharey=True)
    for axis, (variant, movie) in zip(axes, found):
        line = movie["frames_per_second"]
        axis.plot(
            [second + 0.5 for second in range(len(line))],
            line,
            color=plot.colour(variant.scheduler),
            linewidth=1.5,
        )
        axis.axvspan(
            movie["load_at_s"], movie["load_ends_at_s"], color="#000000", alpha=0.05, linewidth=0
        )
        axis.set_title(variant.title, loc="left")
        axis.set_ylim(0, 2 * FRAMES_PER_S)
        axis.set_ylabel("frames/s")
    axes[-1].set_xlabel("time (s); grey: the bombs run")
    figure.suptitle(f"{title} ({BOMBS} bombs of {BOMB_MB} MB each)", fontsize=10)
    return figure
