"""Redline Fig. 8: the movie of Fig. 7 beside interactive memory bombs, when interactive tasks have
no reserve of free memory.

In the paper the bombs are interactive, for best-effort tasks never take the reserve: the player and
the bombs draw on it, and its budget holds the bombs back. Without it each task reclaims for itself,
and the movie stops for 10 s in one run and for more than a minute in another.

A stock kernel is never without: between its watermarks `min` and `low` there is a quarter of
vm.min_free_kbytes, or 0.1 % of memory if that is more. Where transparent huge pages are on, the
kernel raises vm.min_free_kbytes so far that a quarter of it is more than the reserve of 8 MB, which
then changes nothing. So all variants run with the value that the kernel takes without huge pages,
and the table has what lies between the watermarks. The budget of interactive tasks
(bpf/policy/reserve.h) holds in both variants of aplomb.

The variants of stock Linux are those of redline/memory-bomb: it has no reserve either, and no
notion of interactive bombs.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.framework import Experiment, Mark, Samples, Scheduler, Step
from experiments.framework import bombed_movie as bombed
from experiments.framework.frames import FRAMES_PER_S, STARTUP_S
from experiments.framework.marks import at_most
from experiments.framework.memory import (
    BOMB_LINE,
    BOMB_MB,
    BOMBS,
    GUEST_MB,
    Variant,
    in_short_memory,
    protecting,
)
from experiments.framework.movies import FEWEST

# int_sqrt(16 * kB) of the 1.7 GB that the guest has with its swap device (mm/page_alloc.c,
# calculate_min_free_kbytes()).
MIN_FREE_KB = 5280
VARIANTS = (
    *bombed.STOCK,
    Variant("reserve", "aplomb", "aplomb, reserve 8M", profile="reserve"),
    Variant("none", "aplomb", "aplomb, reserve 0", profile="none"),
)


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    return [
        replace(step, words=["min_free", str(MIN_FREE_KB), *step.words])
        for step in bombed.steps(VARIANTS, scheduler, quick)
    ]


def judge(samples: Samples) -> list[Mark]:
    """What the reserve is worth. Without it the movie may do as it likes."""
    ours = samples["aplomb"]
    with_it, without = ours.get("reserve"), ours.get("none")
    if not with_it:
        return []
    return [
        at_most(f"seconds below {FEWEST} frames, with the reserve", with_it["bad_seconds"], 1, "s"),
        at_most(
            f"seconds below {FEWEST} frames, against those without the reserve",
            with_it["bad_seconds"],
            without["bad_seconds"] if without else None,
            "s",
        ),
        at_most(
            f"major faults of the player after its first {STARTUP_S} s, with the reserve",
            with_it["player_major_faults"],
            0,
            "faults",
        ),
    ]


EXPERIMENT = in_short_memory(
    Experiment(
        title="A movie beside interactive memory bombs, without a reserve of free memory",
        figure="Redline, Fig. 8",
        about=f"A player shows a movie of {FRAMES_PER_S} frames a second in a guest of {GUEST_MB} "
        f"MB; after {bombed.LENGTHS.before} s {BOMBS} tasks, interactive 10:100 under aplomb, "
        f"write to each page of {BOMB_MB} MB each, again and again, for "
        f"{bombed.LENGTHS.during} s. aplomb has its reserve of free memory, and then none.",
        steps=make,
        read=bombed.read,
        judge=judge,
        table=lambda samples: bombed.table(VARIANTS, samples),
        draw=lambda samples: bombed.draw(
            VARIANTS, samples, "mplayer with and without a reserve of free memory"
        ),
        profiles={
            "reserve": protecting(bombed.FILM_LINE, BOMB_LINE),
            "none": protecting(bombed.FILM_LINE, BOMB_LINE, reserve="0"),
        },
        settings={**bombed.SETTINGS, "min_free_kb": MIN_FREE_KB},
    )
)
