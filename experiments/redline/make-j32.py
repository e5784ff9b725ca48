"""Redline Fig. 1: a movie while a program is compiled by make -j32.

The paper compiles the Linux kernel; the lab's image has a smaller tree, which is compiled again and
again while the load lasts. The source is copied to a tmpfs, so that the disk plays no part. Form
"one": player and make are started from one terminal; "sessions": make in a session of its own.
"""

from __future__ import annotations

from experiments.framework import Experiment, Scheduler, Step
from experiments.framework.movies import (
    CLIPS,
    PROFILES,
    Load,
    Phases,
    as_sample,
    clips_for,
    draw,
    forms_for,
    judge,
    steps,
    table,
)

LENGTHS = Phases(2, 7, 2)
QUICK_LENGTHS = Phases(2, 6, 2)
# eevdf-nice-0: mplayer at nice 0, as a user without any settings has it. Under the other
# schedulers mplayer gets the most that the scheduler offers.
SCHEDULERS = ("eevdf-nice-0", "eevdf", "deadline", "scx_bpfland", "scx_lavd", "aplomb")
LOAD = Load(
    "make", "make -j32", lambda form: ["sh", "-c", "while :; do /lab/compile /tmp/tree -j32; done"]
)
TITLES = {"make": ""}


def make(scheduler: Scheduler, quick: bool) -> list[Step]:
    return steps(
        scheduler,
        ["heavy"] if quick else clips_for(scheduler),
        ["one"] if quick else forms_for(scheduler),
        [LOAD],
        QUICK_LENGTHS if quick else LENGTHS,
    )


EXPERIMENT = Experiment(
    title="A movie during make -j32",
    figure="Redline, Fig. 1",
    about=f"A player shows a movie of 25 frames a second; after {LENGTHS.before} s a compilation "
    "with 32 jobs runs beside it "
    f"for {LENGTHS.during} s.",
    steps=make,
    read=as_sample,
    judge=lambda samples: judge(samples, TITLES),
    table=lambda samples: table(samples, TITLES),
    draw=lambda samples: draw(samples, TITLES, "mplayer during make -j32"),
    schedulers=SCHEDULERS,
    quick_schedulers=("eevdf", "aplomb"),
    profiles=PROFILES,
    settings={"reservations": {name: str(clip.reservation) for name, clip in CLIPS.items()}},
)
