"""Redline Fig. 7: a movie beside memory bombs, four tasks that need more memory than there is.

The variants are stock Linux with the player at nice -20, the same with what an administrator can
set by hand, and aplomb with bombs that are best-effort, and then interactive. How the movie is
played is in framework/bombed_movie.py.
"""

from __future__ import annotations

from experiments.framework import Experiment, Mark, Samples
from experiments.framework import bombed_movie as bombed
from experiments.framework.frames import FRAMES_PER_S, STARTUP_S
from experiments.framework.marks import at_least, at_most
from experiments.framework.memory import (
    BOMB_LINE,
    BOMB_MB,
    BOMBS,
    GUEST_MB,
    Variant,
    in_short_memory,
    no_reclaim,
    protecting,
)
from experiments.framework.movies import FEWEST

LONGEST_GAP = 120  # ms
VARIANTS = (
    *bombed.STOCK,
    Variant("be", "aplomb", "aplomb, bombs best-effort", profile="film"),
    Variant("iact", "aplomb", "aplomb, bombs interactive 10:100", profile="film-bombs"),
)
# A stock kernel that keeps as much for the player leaves the bombs as much memory.
COMPARED = "min"
LEAST_THROUGHPUT = 0.9


def judge(samples: Samples) -> list[Mark]:
    ours = samples["aplomb"]
    stock = samples.get("eevdf", {}).get(COMPARED, {}).get("bomb_pages_per_s")
    least = round(LEAST_THROUGHPUT * stock) if stock else None
    marks = []
    if best := ours.get("be"):
        marks += [
            at_least("fewest frames in a second (bombs best-effort)", best["fewest"], 24, "frames"),
            at_most("longest gap (bombs best-effort)", best["longest_gap_ms"], LONGEST_GAP, "ms"),
            no_reclaim(best, " (bombs best-effort)"),
        ]
    if interactive := ours.get("iact"):
        name = f"seconds below {FEWEST} frames (bombs interactive)"
        marks.append(at_most(name, interactive["bad_seconds"], 1, "s"))
    for name, title in (("be", "best-effort"), ("iact", "interactive")):
        if movie := ours.get(name):
            marks += [
                at_most(
                    f"major faults of the player after its first {STARTUP_S} s (bombs {title})",
                    movie["player_major_faults"],
                    0,
                    "faults",
                ),
                at_least(
                    f"pages that the bombs wrote (bombs {title}), against {LEAST_THROUGHPUT} of "
                    f"EEVDF's with memory.min {bombed.PROTECTED}",
                    movie["bomb_pages_per_s"],
                    least,
                    "pages/s",
                ),
            ]
    return marks


EXPERIMENT = in_short_memory(
    Experiment(
        title="A movie beside memory bombs",
        figure="Redline, Fig. 7",
        about=f"A player shows a movie of {FRAMES_PER_S} frames a second in a guest of {GUEST_MB} "
        f"MB; after {bombed.LENGTHS.before} s {BOMBS} tasks write to each page of {BOMB_MB} MB "
        f"each, again and again, for {bombed.LENGTHS.during} s.",
        steps=lambda scheduler, quick: bombed.steps(VARIANTS, scheduler, quick),
        read=bombed.read,
        judge=judge,
        table=lambda samples: bombed.table(VARIANTS, samples),
        draw=lambda samples: bombed.draw(VARIANTS, samples, "mplayer beside memory bombs"),
        profiles={
            "film": protecting(bombed.FILM_LINE),
            "film-bombs": protecting(bombed.FILM_LINE, BOMB_LINE),
        },
        settings=bombed.SETTINGS,
    )
)
