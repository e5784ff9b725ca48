"""A program that reads from a disk beside others that read from it: what the experiments on shares
of a disk have in common.

All read past the page cache, at random places, from the disk itself (lab/guest/programs/reads.c),
so that the disk's time is what they compete for. The program is in the cgroup /program, the load
in /load. Each variant is a scheduler of CPUs, an I/O scheduler of the kernel, and what an
administrator would set there to get the same shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .beside import reports
from .experiment import Step
from .saves import DEVICES, SECTOR, Device, device_at
from .schedulers import Reservation, Scheduler

DISKS = tuple(device.disk for device in DEVICES)
SETTLE_S = 2
PROGRAM = "/job/reads"
READS, SECTORS = 1, 3  # fields of what disk_at wrote
# What the shares of a variant say where it has none.
NONE = "-"


@dataclass(frozen=True)
class Variant:
    """prefix: of the program's command. weights: of the program and its load, for an I/O scheduler
    that knows some. shares: what aplomb reserves for both. profile: aplomb's."""

    name: str
    scheduler: str
    kind: str
    title: str
    prefix: tuple[str, ...] = ()
    weights: str = NONE
    shares: str = NONE
    profile: str = "shipped"


@dataclass(frozen=True)
class Reads:
    """Readers of one kind: words of reads.c. every_ms 0: one read after the other. how: "cached",
    and perhaps "no-ahead"."""

    kb: int
    readers: int
    every_ms: int = 0
    behind: int = 0
    how: tuple[str, ...] = ()

    def words(self, device: Device, seconds: int, program: str = PROGRAM) -> list[object]:
        timed = ["every", self.every_ms, "behind", self.behind] if self.every_ms else []
        return [program, f"/dev/{device.name}", seconds, self.kb, self.readers, *timed, *self.how]


def step(
    name: str,
    variant: Variant,
    scheduler: Scheduler,
    device: Device,
    seconds: int,
    program: Reads,
    load: Reads,
    reservation: Reservation | None = None,
    own_name: str = "",
) -> Step:
    """One measurement. The load reads alone for SETTLE_S first. With a reservation the program gets
    its due under each scheduler. own_name: the program runs as /job/NAME, for a specification."""
    words: list[object] = ["on_raw_disk", device.name, variant.kind, device.cost]
    words += [variant.weights, variant.shares, "beside_flood", SETTLE_S]
    words += ["/job/enter", "program", *scheduler.prefix(reservation), *variant.prefix, "--"]
    own = f"/job/{own_name}" if own_name else PROGRAM
    words += [*program.words(device, seconds, own), "--", "/job/enter", "load"]
    # the load is ended by the step
    words += load.words(device, seconds + SETTLE_S + 20)
    return Step(name, [str(word) for word in words], seconds + SETTLE_S + 4, variant.profile)


def read(folder: Path) -> dict[str, Any]:
    """What both programs say, and what the disk did meanwhile."""
    (program,) = reports(folder / "stdout")
    (load,) = reports(folder / "load")
    begin, end = device_at(folder, "load"), device_at(folder, "after")
    return {
        "program": program,
        "load": load,
        "seconds": round(end[0] - begin[0], 3),
        "read": counted(folder, READS),
        "read_mb": round(counted(folder, SECTORS) * SECTOR / (1 << 20), 2),
    }


def counted(folder: Path, field: int) -> int:
    """What the disk did while both read, by a field of its `stat` (Documentation/block/stat)."""
    at = [int((folder / f"disk-{phase}").read_text().split()[field]) for phase in ("load", "after")]
    return at[1] - at[0]


def of_scheduler(variants: Sequence[Variant], scheduler: Scheduler) -> list[Variant]:
    return [variant for variant in variants if variant.scheduler == scheduler.name]
