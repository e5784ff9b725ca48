"""Experiments in a guest whose memory is short: the guest, the bombs, the variants, the profiles,
and what each step leaves of the kernel's and aplomb's counters.

Redline section 8.2 has four tasks of 300 MB each on a machine of 1 GB. Here each has 30 % of the
guest's memory, so that together they need 1.2 times what there is. The swap device serves 400
requests and 40 MB a second, one request at a time, by the guest's own clock: with a device as fast
as memory there is nothing to wait for.

A variant is a scheduler and what else is set: a protection by hand under EEVDF, a profile under
aplomb. Each is a step of its scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .errors import ExperimentError
from .experiment import Experiment, Profile, Samples, Step
from .marks import Mark, at_most
from .schedulers import Scheduler

GUEST_MB = 768
# The kernel leaves about 550 MB of the guest's memory to programs, so 370 MB of the bombs' 920 MB
# and what they push out are in swap: 1 GB holds it. A larger device costs boot time, 40 s of
# processor time a gigabyte: each of its pages is written once at boot.
SWAP = "1G,iops=400,rate=40M"
BOMBS = 4
BOMB_MB = 30 * GUEST_MB // 100
BOMB_LINE = "/job/membomb:iact:10:100:IR:-:-"
MIN_TTL_MS = 1000

# The kernel's counters that are kept, of /proc/vmstat. Sums: a zone each.
COUNTERS = (
    "pswpin",
    "pswpout",
    "allocstall",
    "pgscan_direct",
    "pgsteal_direct",
    "pgmajfault",
    "workingset_refault_anon",
    "workingset_refault_file",
    "oom_kill",
)
FAULTS = "program_majflt"
PROTECT = ("[memory]", "protect = true")  # lines of aplomb.toml: it is off by default
# The classes of tasks in `aplomb status`, and what it counts of each since the daemon started.
CLASSES = ("interactive", "best-effort")
TASK_COUNTERS = ("asked", "parked", "reclaimed", "reclaimed_limit", "swapped_in")
PAGE = 4096


@dataclass(frozen=True)
class Variant:
    """name: of the step; knob: of guest/memory.sh."""

    name: str
    scheduler: str
    title: str
    knob: str = "-"
    profile: str = "shipped"

    def step(self, words: Sequence[object], seconds: float) -> Step:
        return Step(
            self.name,
            ["pressure", self.knob, *(str(word) for word in words)],
            seconds,
            self.profile,
        )


def by_hand(protected: str, what: str = "program at nice -20") -> tuple[Variant, ...]:
    """What stock Linux can do for a program: nice -20; with it, memory.min on the program's cgroup,
    set by an administrator who knows how much it needs (Kato's memory reserves); and the kernel's
    own protection of working sets, the best single knob that there is."""
    return (
        Variant("plain", "eevdf", f"EEVDF, {what}"),
        Variant("min", "eevdf", f"EEVDF, memory.min {protected}", f"memory.min={protected}"),
        Variant("ttl", "eevdf", f"EEVDF, min_ttl_ms {MIN_TTL_MS}", f"min_ttl_ms={MIN_TTL_MS}"),
    )


def protecting(*lines: str, **settings: str) -> Profile:
    """The profile of an aplomb that protects memory, which it does not by default. lines: specs;
    settings: of the table [memory]."""
    more = (f'{name} = "{value}"' for name, value in settings.items())
    return Profile(lines, config=(*PROTECT, *more))


def in_short_memory(experiment: Experiment) -> Experiment:
    """The experiment, in a guest whose memory is short, under stock Linux and aplomb."""
    return replace(
        experiment,
        schedulers=("eevdf", "aplomb"),
        memory_mb=GUEST_MB,
        swaps=(SWAP,),
        settings={**SETTINGS, **experiment.settings},
    )


def of_scheduler(variants: Sequence[Variant], scheduler: Scheduler) -> list[Variant]:
    return [variant for variant in variants if variant.scheduler == scheduler.name]


def measured(
    variants: Sequence[Variant], samples: Samples
) -> Iterator[tuple[Variant, Mapping[str, Any]]]:
    """The variants that were measured, in order, with their samples."""
    for variant in variants:
        sample = samples.get(variant.scheduler, {}).get(variant.name)
        if sample is not None:
            yield variant, sample


def program(*words: object, place: str = "program") -> list[object]:
    """Words that run a program in the cgroup whose protection the variants set. place: another
    cgroup; "": the root."""
    return ["/job/enter", f"program={place}", *words]


def bombs(seconds: int) -> list[object]:
    """Words of the load. The bombs end themselves after that time."""
    return ["/job/enter", "load", "/job/membomb", BOMBS, BOMB_MB, seconds]


def parse_counters(text: str) -> dict[str, int]:
    """What guest/memory.sh left of a phase. allocstall is a sum over the zones."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        name = "allocstall" if name.startswith("allocstall_") else name
        if name in COUNTERS or name == FAULTS:
            found[name] = found.get(name, 0) + int(value)
    return found


def counted(folder: Path, begin: str, end: str) -> dict[str, int | None]:
    """How much each counter grew from one phase to another. The program's faults are None if it was
    killed."""
    first, last = (
        parse_counters((folder / f"memory-{phase}").read_text()) for phase in (begin, end)
    )
    lacking = [name for name in COUNTERS if name not in first or name not in last]
    if lacking:
        raise ExperimentError(f"{folder}: /proc/vmstat has no {lacking[0]}")
    grown: dict[str, int | None] = {name: last[name] - first[name] for name in COUNTERS}
    grown[FAULTS] = last[FAULTS] - first[FAULTS] if FAULTS in first and FAULTS in last else None
    return grown


def tasks_counted(folder: Path) -> dict[str, dict[str, int]] | None:
    """What aplomb counted by class of tasks during a step; None under another scheduler."""
    paths = [folder / name for name in ("aplomb-before.json", "aplomb.json")]
    if not all(path.exists() for path in paths):
        return None
    first, last = (
        {each["class"]: each for each in json.loads(path.read_text())["memory"]["counts"]}
        for path in paths
    )
    return {
        kind: {name: last[kind][name] - first[kind][name] for name in TASK_COUNTERS}
        for kind in CLASSES
    }


def reserve_mb(folder: Path) -> float:
    """How much free memory lies between the kernel's watermarks min and low, over all zones: what
    the reserve is."""
    marks = {"min": 0, "low": 0}
    for line in (folder / "zoneinfo").read_text().splitlines():
        words = line.split()
        if len(words) == 2 and words[0] in marks:
            marks[words[0]] += int(words[1])
    return round((marks["low"] - marks["min"]) * PAGE / (1 << 20), 2)


def shortage(folder: Path, load: Mapping[str, Any] | None, settle: int) -> dict[str, Any]:
    """What each experiment records of a step: the counters while the load runs, its throughput
    (pages_a_second), what happened to tasks, the reserve."""
    return {
        "under_bombs": counted(folder, "load", "after"),
        "bomb_pages_per_s": pages_a_second(load, settle),
        "tasks": tasks_counted(folder),
        "reserve_mb": reserve_mb(folder),
    }


COLUMNS = (
    "interactive reclaims",
    "pswpin",
    "pswpout",
    "allocstall",
    "pgscan_direct",
    "bombs' pages/s",
    "OOM kills",
)


def cells(sample: Mapping[str, Any]) -> list[object]:
    """A sample's cells of COLUMNS."""
    memory, tasks = sample["under_bombs"], sample["tasks"]
    return [
        tasks["interactive"]["reclaimed"] if tasks else None,
        memory["pswpin"],
        memory["pswpout"],
        memory["allocstall"],
        memory["pgscan_direct"],
        sample["bomb_pages_per_s"],
        memory["oom_kill"],
    ]


def no_reclaim(sample: Mapping[str, Any], where: str = "") -> Mark:
    """The mark of all experiments whose bombs are best-effort: while a page of theirs can be taken,
    no interactive task reclaims memory itself."""
    tasks = sample["tasks"]
    return at_most(
        f"direct reclaim by interactive tasks{where}",
        tasks["interactive"]["reclaimed"] if tasks else None,
        0,
        "times",
    )


def pages_a_second(load: Mapping[str, Any] | None, settle: int) -> float | None:
    """Pages that the bombs wrote each second, on average. The first seconds are left out: memory is
    still free in them."""
    if load is None:
        return None
    seconds = load["pages_each_second"][settle:]
    return round(sum(seconds) / len(seconds)) if seconds else None


SETTINGS = {
    "guest_mb": GUEST_MB,
    "swap": SWAP,
    "bombs": BOMBS,
    "bomb_mb": BOMB_MB,
    "min_ttl_ms": MIN_TTL_MS,
}
