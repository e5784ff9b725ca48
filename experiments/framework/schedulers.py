"""The schedulers that experiments compare: how each is started in the guest, and how a program gets
its due under it.

Stock Linux gives importance by nice, SCHED_DEADLINE by an explicit request for the same runtime and
period, the schedulers of the scx collection by guessing (and nice), aplomb by a specification that
is matched when the program starts: the program is neither changed nor told.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS_VERSION = "1.1.4"


@dataclass(frozen=True)
class Reservation:
    """Runtime C in every period T, in microseconds."""

    runtime_us: int
    period_us: int

    def __str__(self) -> str:
        return f"{self.runtime_us / 1000:g}:{self.period_us / 1000:g}"


@dataclass(frozen=True)
class Scheduler:
    """One scheduler of a comparison."""

    name: str
    title: str
    colour: str
    # What the name in /sys/kernel/sched_ext/root/ops begins with; "": the kernel's own.
    ops: str = ""
    options: tuple[str, ...] = ()
    player_nice: int = -20  # of the program that matters, where nice counts

    def prefix(self, reservation: Reservation | None) -> list[str]:
        """The words before the command of the program that matters. None: it is like any other
        program."""
        if self.name == "aplomb" or reservation is None:
            return []
        if self.name == "deadline":
            # -R: threads and children are ordinary; the kernel refuses a fork otherwise.
            return [
                "chrt",
                "-R",
                "-d",
                "--sched-runtime",
                str(reservation.runtime_us * 1000),
                "--sched-deadline",
                str(reservation.period_us * 1000),
                "--sched-period",
                str(reservation.period_us * 1000),
                "0",
            ]
        return ["nice", "-n", str(self.player_nice)] if self.player_nice else []

    @property
    def binary(self) -> Path | None:
        """The program to take into the guest, wherever it may be."""
        if self.name == "aplomb":
            return aplomb_binary()
        return peers_folder() / "bin" / self.name if self.ops else None

    @property
    def missing(self) -> str:
        """Why it cannot take part here, and what to do; empty if it can."""
        if self.binary is None or self.binary.is_file():
            return ""
        if self.name == "aplomb":
            return "aplomb is not built: run make build"
        return (
            f"{self.name} {PEERS_VERSION} is not installed: run experiments/peers/build "
            "(needs cargo, clang, 10 minutes)"
        )

    def version(self) -> str:
        """What the binary says of itself; the kernel's own schedulers have the kernel's version."""
        if self.binary is None:
            return ""
        done = subprocess.run(
            [self.binary, "--version"], capture_output=True, text=True, timeout=30, check=False
        )
        return (
            (done.stdout.strip() or done.stderr.strip()).splitlines()[0]
            if done.stdout or done.stderr
            else "unknown"
        )


def peers_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "aplomb" / "peers"


def aplomb_binary() -> Path:
    """The static release build; APLOMB_BINARY names another one."""
    if named := os.environ.get("APLOMB_BINARY"):
        return Path(named)
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return target / "x86_64-unknown-linux-gnu" / "release" / "aplomb"


_ALL = [
    Scheduler("eevdf", "EEVDF, player at nice -20", "#d62728"),
    Scheduler("eevdf-nice-0", "EEVDF, player at nice 0", "#ff9896", player_nice=0),
    Scheduler("deadline", "SCHED_DEADLINE", "#7f7f7f"),
    Scheduler("scx_bpfland", "scx_bpfland", "#ff7f0e", "bpfland"),
    Scheduler("scx_lavd", "scx_lavd --performance", "#9467bd", "lavd", ("--performance",)),
    Scheduler("aplomb", "aplomb", "#1f77b4", "aplomb"),
]


def all_schedulers() -> dict[str, Scheduler]:
    return {scheduler.name: scheduler for scheduler in _ALL}
