"""Runs one job of tests/lab/guest in the lab and turns its checks into subtests.

A job is a shell script that writes lines `CHECK name ok|FAIL details` and ends with the check
`finish`. Each job is one boot. In every run the kernel's log is searched for complaints, and the
kernel must not have ended the scheduler unless the job says that it means to.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PROGRAMS = REPOSITORY / "target" / "lab-tests" / "bin"
RESULTS = REPOSITORY / "target" / "lab-tests" / "out"
sys.path.insert(0, str(REPOSITORY / "lab"))

from aplomb_lab import RunResult, run  # noqa: E402  (the path must be set first)

# What the kernel logs when something is wrong.
COMPLAINT = re.compile(
    r"WARNING: |\bBUG: |Oops|general protection fault|kernel NULL pointer"
    r"|^(?!.*rcu_cpu_stall_timeout).*(?i:rcu).*(stall|detected)"  # not that setting's own line
    r"|soft lockup|hung_task|blocked for more than|Kernel panic|scheduling while atomic"
    r"|suspicious RCU"
)
# The kernel ended the scheduler by itself.
EJECTED = re.compile(
    r'sched_ext: BPF scheduler "[^"]*" disabled \((?!unregistered from user space\))(.*)\)'
)

# A kernel parameter. The verifiers of 6.16 and 6.18 work for about 21 emulated seconds at the
# largest program, before aplomb is attached; the kernel would call that a stall of RCU.
# start_daemon sets it back.
STALLS_LATER = "rcupdate.rcu_cpu_stall_timeout=60"


def binary() -> Path:
    """The static program, as `make build` leaves it."""
    path = Path(os.environ.get("APLOMB_BINARY", REPOSITORY / "target" / "aplomb")).resolve()
    if not path.exists():
        raise FileNotFoundError(f"{path}: build it with `make build`, or name it in APLOMB_BINARY")
    return path


def build_programs() -> None:
    subprocess.run(["make", "-s", "-C", HERE / "guest", f"OUT={PROGRAMS}"], check=True)


class JobTest(unittest.TestCase):
    """Base of the tests: a subclass names its job and its machine.

    seconds: wall time on a quiet core, from which `make test` makes its plan (CONTRIBUTING.md has
    the budget). full: only `make test-full` runs it (by hand: APLOMB_LAB_FULL=1).
    """

    job = ""  # tests/lab/guest/JOB.sh; several names: in this order, on one start of the daemon
    machine = "timing"
    cpus: int | None = None  # of a machine with several: not its usual number
    topology: str | None = None  # their sockets, cores and threads, as the lab's --topology
    kernel = "7.3"
    memory = 2048
    disks: ClassVar[Sequence[str]] = ()  # disks with a time of their own, as the lab's --disk
    swaps: ClassVar[Sequence[str]] = ()  # swap devices, as the lab's --swap takes them
    seconds = 60
    full = False
    needs: ClassVar[Sequence[str]] = ()  # stages that must have passed before, beside the usual
    env: ClassVar[Mapping[str, str]] = {}
    append = ""  # more kernel parameters
    inputs: ClassVar[Sequence[tuple[Path, str]]] = ()  # more files, and their names in /job
    may_end = ""  # pattern of the reasons for which the kernel may end the scheduler in this job
    result: RunResult

    @classmethod
    def limit(cls) -> float:
        """Wall seconds after which the guest is ended: machines are shared, and some are slow."""
        return float(os.environ.get("APLOMB_LAB_JOB_LIMIT", max(1200, 10 * cls.seconds)))

    @classmethod
    def command(cls) -> list[str]:
        jobs = cls.job.split()
        script = "jobs.sh" if len(jobs) > 1 else f"{jobs.pop()}.sh"
        return ["bash", f"guest/{script}", *jobs]

    @classmethod
    def setUpClass(cls) -> None:
        if not cls.job:
            raise unittest.SkipTest("the base")
        if cls.full and not os.environ.get("APLOMB_LAB_FULL"):
            raise unittest.SkipTest("only with APLOMB_LAB_FULL=1, as in `make test-full`")
        build_programs()
        cls.result = run(
            cls.command(),
            out=RESULTS / cls.__name__,
            machine=cls.machine,
            cpus=cls.cpus,
            topology=cls.topology,
            kernel=cls.kernel,
            memory=cls.memory,
            disks=cls.disks,
            swaps=cls.swaps,
            limit=cls.limit(),
            env=cls.env,
            append=cls.append,
            inputs=[
                (binary(), "aplomb"),
                (PROGRAMS, "guest-programs"),
                (HERE / "guest", "guest"),
                *((path.resolve(), name) for path, name in cls.inputs),
            ],
        )

    def test_checks(self) -> None:
        file = self.result.out / "checks"
        text = file.read_text(errors="replace") if file.exists() else ""
        lines = text.splitlines()
        for line in lines:
            word, name, verdict, *details = line.split(" ", 3)
            with self.subTest(name):
                self.assertEqual((word, verdict), ("CHECK", "ok"), f"{name}: {' '.join(details)}")
        print(f"lab checks: {len(lines)}")
        self.assertIn(
            "CHECK finish ok",
            text,
            f"the job did not run to its end: {self.result.status}\n{self.result.stdout[-2000:]}",
        )

    def test_kernel_does_not_complain(self) -> None:
        log = (self.result.out / "dmesg").read_text(errors="replace")
        self.assertEqual([line for line in log.splitlines() if COMPLAINT.search(line)], [])
        ends = [match.group(1) for match in EJECTED.finditer(log)]
        if self.may_end:
            ends = [end for end in ends if not re.search(self.may_end, end)]
        self.assertEqual(ends, [])
