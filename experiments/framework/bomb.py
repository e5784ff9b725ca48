"""Redline's fork bomb (section 8.1, Fig. 5), of any number of tasks.

The player runs for 10 s; then a task forks the others, each an infinite loop, and kills them after 30 s; 10 s follow.
Under aplomb the bomb is best-effort, and then interactive by specification: 10:100 each, inherited at fork.
"""
from __future__ import annotations

from .experiment import Experiment, Profile
from .movies import HEAVY_LINE, CLIPS, Clip, Load, Phases, as_sample, draw, judge, steps, table
from .schedulers import Scheduler

BOMB_LINE = "/job/bomb:iact:10:100:IR::"
PROFILES = {
    "heavy": Profile((HEAVY_LINE,)),
    "shipped-bomb": Profile((BOMB_LINE,)),
    "heavy-bomb": Profile((HEAVY_LINE, BOMB_LINE)),
}
TITLES = {"be": "bomb best-effort", "iact": "bomb interactive 10:100"}
LENGTHS = Phases(10, 30, 10)
QUICK_LENGTHS = Phases(2, 6, 2)


def _loads(tasks: int, lasts: int) -> dict[str, Load]:
    def words(form: str) -> list[str]:
        return ["/job/bomb", str(tasks), str(lasts), *(["--sessions"] if form == "sessions" else [])]

    def with_bomb(clip: Clip) -> str:
        return f"{clip.profile}-bomb"
    return {"be": Load("be", TITLES["be"], words), "iact": Load("iact", TITLES["iact"], words, with_bomb)}


def fork_bomb(tasks: int, figure: str) -> Experiment:
    def make(scheduler: Scheduler, quick: bool) -> list:
        phases = QUICK_LENGTHS if quick else LENGTHS
        loads = _loads(tasks, phases.during)
        # Only aplomb has a notion of interactive by specification; elsewhere the bomb is a bomb.
        chosen = list(loads.values()) if scheduler.name == "aplomb" else [loads["be"]]
        return steps(scheduler, ["heavy"] if quick else list(CLIPS), ["sessions"] if quick else ["one", "sessions"], chosen,
                     phases)
    return Experiment(
        title=f"A movie through a fork bomb of {tasks} tasks", figure=figure,
        about=f"A player shows a movie of 25 frames a second; after {LENGTHS.before} s a task forks {tasks} infinite loops, "
              f"and kills them after {LENGTHS.during} s.",
        steps=make, read=as_sample,
        judge=lambda samples: judge(samples, TITLES),
        table=lambda samples: table(samples, TITLES),
        draw=lambda samples: draw(samples, TITLES, f"mplayer through a fork bomb of {tasks} tasks"),
        profiles=PROFILES,
        settings={"tasks": tasks, "reservations": {name: str(clip.reservation) for name, clip in CLIPS.items()},
                  "phases_s": [LENGTHS.before, LENGTHS.during, LENGTHS.after]})
