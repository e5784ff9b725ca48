"""Redline's fork bomb (section 8.1, Fig. 5), of any number of tasks.

The player runs for a while; then a task forks the others, each an infinite loop, and kills them
some time later. The paper plays 10 s, bombs 30 s and plays on; here the times are shorter (an
emulator needs about a second for each of the guest's), and the same otherwise. Under aplomb the
bomb is best-effort, and then interactive by specification: 10:100 each, inherited at fork.
"""

from __future__ import annotations

from .experiment import Experiment, Profile, Step
from .movies import (
    CLIPS,
    HEAVY_LINE,
    Clip,
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
from .schedulers import Scheduler

BOMB_LINE = "/job/bomb:iact:10:100:IR:-:-"
PROFILES = {
    "heavy": Profile((HEAVY_LINE,)),
    "shipped-bomb": Profile((BOMB_LINE,)),
    "heavy-bomb": Profile((HEAVY_LINE, BOMB_LINE)),
}
TITLES = {"be": "bomb best-effort", "iact": "bomb interactive 10:100"}
LENGTHS = {50: Phases(3, 10, 4), 2000: Phases(2, 8, 4)}
QUICK_LENGTHS = Phases(2, 6, 2)


def bomb_loads(tasks: int, lasts: int) -> dict[str, Load]:
    def words(form: str) -> list[str]:
        return [
            "/job/bomb",
            str(tasks),
            str(lasts),
            *(["--sessions"] if form == "sessions" else []),
        ]

    def with_bomb(clip: Clip) -> str:
        return f"{clip.profile}-bomb"

    return {
        "be": Load("be", TITLES["be"], words),
        "iact": Load("iact", TITLES["iact"], words, with_bomb),
    }


def fork_bomb(tasks: int, figure: str) -> Experiment:
    lengths = LENGTHS[tasks]

    def make(scheduler: Scheduler, quick: bool) -> list[Step]:
        phases = QUICK_LENGTHS if quick else lengths
        loads = bomb_loads(tasks, phases.during)
        # Only aplomb has a notion of interactive by specification; elsewhere the bomb is a bomb.
        chosen = list(loads.values()) if scheduler.name == "aplomb" else [loads["be"]]
        return steps(
            scheduler,
            ["heavy"] if quick else clips_for(scheduler),
            ["sessions"] if quick else forms_for(scheduler),
            chosen,
            phases,
        )

    return Experiment(
        title=f"A movie through a fork bomb of {tasks} tasks",
        figure=figure,
        about=f"A player shows a movie of 25 frames a second; after {lengths.before} s a task "
        f"forks {tasks} infinite loops, "
        f"and kills them after {lengths.during} s.",
        steps=make,
        read=as_sample,
        judge=lambda samples: judge(samples, TITLES),
        table=lambda samples: table(samples, TITLES),
        draw=lambda samples: draw(samples, TITLES, f"mplayer through a fork bomb of {tasks} tasks"),
        profiles=PROFILES,
        settings={
            "tasks": tasks,
            "reservations": {name: str(clip.reservation) for name, clip in CLIPS.items()},
            "phases_s": [lengths.before, lengths.during, lengths.after],
            "paper_phases_s": [10, 30, 10],
        },
    )
