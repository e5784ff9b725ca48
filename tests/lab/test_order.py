"""The kernel and the simulator dispatch the same tasks in the same order.

Both play order.toml: the kernel in the lab, traced, and the simulator. Each trace is reduced to the
pieces of time in which one of the scenario's tasks had the CPU; other tasks, which only the kernel
has, are cut out. The names must be the same in the same order, without exception. Each piece must
begin at the same time, within TOLERANCE_US. A piece may begin a tick apart where another task, such
as a kernel thread, interrupted a slice: the kernel looks at slices at ticks, so a slice that
continues some microseconds after a tick has as much left at the next.
"""

from __future__ import annotations

import subprocess
import tomllib
from bisect import bisect
from collections.abc import Sequence
from pathlib import Path

from . import harness

SCENARIO = harness.HERE / "order.toml"
# Interrupts, switches, their tracing and other tasks take time in the kernel and none in the
# simulator. Pieces that are shorter than this do not count, so two events within it may be swapped.
TOLERANCE_US = 300
TICK_US = 4000
# How many pieces may begin a tick apart depends on how often kernel threads run: 12 of 643 on one
# boot, 30 on another. More than this, and the scenario is no longer what is compared.
A_TICK_APART = 0.06  # of the pieces
# The seconds of the scenario that are compared. They begin with the first jobs, which in the
# simulator are the programs' exec as well.
WINDOW = (1.2, 4.9)

Piece = tuple[float, str]  # when it begins, us; which task


def reduced(switches: list[Piece], names: set[str]) -> list[Piece]:
    """Pieces of the scenario's tasks within WINDOW, without short ones, each task once in a row."""
    ends = [at for at, _ in switches[1:]] + [WINDOW[1] * 1e6]
    pieces: list[Piece] = []
    for (at, name), end in zip(switches, ends):
        if name not in names or end - at < TOLERANCE_US:
            continue
        if not pieces or pieces[-1][1] != name:
            pieces.append((at, name))
    return [(at, name) for at, name in pieces if WINDOW[0] * 1e6 <= at < WINDOW[1] * 1e6]


def differences(
    kernel: list[Piece], simulated: list[Piece], interruptions: Sequence[float] = ()
) -> list[str]:
    """A line of text for each difference between the two.

    interruptions: when other tasks began to run in the kernel, us, in order.
    """

    def interrupted(at: float, until: float) -> bool:
        """Whether another task ran in the tick that ended at @at, or from then @until."""
        after = bisect(interruptions, at - TICK_US - TOLERANCE_US)
        return after < len(interruptions) and interruptions[after] < until

    found: list[str] = []
    nr_late, followed = 0, False
    pairs = list(zip(kernel, simulated))
    for k, s in pairs:
        apart = abs(k[0] - s[0])
        after_interruption = interrupted(min(k[0], s[0]), max(k[0], s[0]))
        may_be_late = followed or after_interruption
        late = apart > TOLERANCE_US
        nr_late += late
        # The piece after a late one is late, too, but that one excuses no more.
        followed = late and after_interruption
        if k[1] != s[1] or apart > (TICK_US if may_be_late else 0) + TOLERANCE_US:
            found.append(f"{k[0]:.0f} us: {k[1]} in the kernel; {s[0]:.0f} us: {s[1]} simulated")
    if nr_late > A_TICK_APART * len(pairs):
        found.append(f"{nr_late} of {len(pairs)} pieces begin more than {TOLERANCE_US} us apart")
    if len(kernel) != len(simulated):
        found.append(f"{len(kernel)} pieces in the kernel, {len(simulated)} simulated")
    return found


class Order(harness.JobTest):
    """the kernel and the simulator dispatch in the same order"""

    job = "order"
    seconds = 100
    needs = ("units",)  # which builds the simulator, and holds cargo's lock
    inputs = [(SCENARIO, "order.toml")]

    def test_order(self) -> None:
        names = {task["name"] for task in tomllib.loads(SCENARIO.read_text())["task"]}
        traced = self.traced(self.result.out)
        others = [at for at, name in traced if name not in names and not name.startswith("swapper")]
        kernel = reduced(traced, names)
        simulated = reduced(self.simulated(), names)
        self.assertGreater(len(simulated), 400, "the scenario has become trivial")
        self.assertEqual({name for _, name in simulated}, names)
        found = differences(kernel, simulated, others)
        self.assertEqual(found[:20], [], f"{len(found)} of {len(simulated)} pieces")

    @staticmethod
    def traced(out: Path) -> list[Piece]:
        zero = int((out / "zero").read_text()) * 1000
        lines = (line.split(" ", 1) for line in (out / "switches").read_text().splitlines())
        return [(float(at) * 1e6 - zero, name) for at, name in lines]

    @staticmethod
    def simulated() -> list[Piece]:
        play = [
            "cargo",
            "run",
            "-q",
            "-p",
            "aplomb-sim",
            "--example",
            "switches",
            "--",
            str(SCENARIO),
        ]
        lines = subprocess.run(
            play, cwd=harness.REPOSITORY, check=True, capture_output=True, text=True
        ).stdout
        words = (line.split(" ", 2) for line in lines.splitlines())
        return [(int(at) / 1000, name) for at, _, name in words]
