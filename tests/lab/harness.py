"""Runs one job of tests/lab/guest in the lab and turns its checks into subtests.

A job is a shell script that writes lines `CHECK name ok|FAIL details` and ends with the check `finish`. Each job is one
boot. In every run the kernel's log is searched for complaints, and the scheduler must not have been ended by the kernel
unless the job says that it means to.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unittest
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
PROGRAMS = REPOSITORY / "target" / "lab-tests" / "bin"
RESULTS = REPOSITORY / "target" / "lab-tests" / "out"
sys.path.insert(0, str(REPOSITORY / "lab"))

from aplomb_lab import RunResult, run  # noqa: E402

# The kernel complains, in whatever way.
COMPLAINT = re.compile(
    r"WARNING: |\bBUG: |Oops|general protection fault|kernel NULL pointer|[Rr]CU.*(stall|detected)|soft lockup"
    r"|hung_task|blocked for more than|Kernel panic|scheduling while atomic|suspicious RCU"
)
# The kernel ended the scheduler by itself.
EJECTED = re.compile(
    r'sched_ext: BPF scheduler "[^"]*" disabled \((?!unregistered from user space\))(.*)\)'
)
# Wall seconds for one job; machines are shared, and emulation is slow.
LIMIT = float(os.environ.get("APLOMB_LAB_JOB_LIMIT", "900"))
# More than 1: that many timing guests run side by side from the first test on (their time is virtual, so they do not
# disturb each other), all that were loaded. For the whole suite; for one job it would start others in vain.
SIDE_BY_SIDE = int(os.environ.get("APLOMB_LAB_JOBS", "1"))


def binary() -> Path:
    """The static program, as `make build` leaves it."""
    path = Path(os.environ.get("APLOMB_BINARY", REPOSITORY / "target" / "aplomb")).resolve()
    if not path.exists():
        raise FileNotFoundError(f"{path}: build it with `make build`, or name it in APLOMB_BINARY")
    return path


def build_programs() -> None:
    subprocess.run(["make", "-s", "-C", HERE / "guest", f"OUT={PROGRAMS}"], check=True)


class JobTest(unittest.TestCase):
    """Base of the tests: a subclass names its job and its machine."""

    job = ""  # tests/lab/guest/JOB.sh
    machine = "timing"
    kernel = "7.3"
    memory = 2048
    env: dict[str, str] = {}
    append = ""  # more kernel parameters
    inputs: list[
        tuple[Path, str]
    ] = []  # more files of the repository that the job needs, and their names there
    may_end = ""  # pattern of the reasons for which the kernel may end the scheduler in this job
    result: RunResult

    @classmethod
    def setUpClass(cls) -> None:
        if not cls.job:
            raise unittest.SkipTest("the base")
        binary()
        build_programs()
        if SIDE_BY_SIDE > 1 and not _early:
            pool = ThreadPoolExecutor(SIDE_BY_SIDE)
            _early.update(
                (c, pool.submit(c.boot)) for c in JobTest.__subclasses__() if c.machine == "timing"
            )
        if cls in _early:
            cls.result = _early[cls].result()
        else:
            for job in _early.values():  # two CPUs in real time want the machine for themselves
                job.exception()
            cls.result = cls.boot()

    @classmethod
    def boot(cls) -> RunResult:
        return run(
            ["bash", f"guest/{cls.job}.sh"],
            out=RESULTS / cls.__name__,
            machine=cls.machine,
            kernel=cls.kernel,
            memory=cls.memory,
            limit=LIMIT,
            env=cls.env,
            append=cls.append,
            inputs=[
                (binary(), "aplomb"),
                (PROGRAMS, "guest-programs"),
                (HERE / "guest", "guest"),
                *cls.inputs,
            ],
        )

    def test_checks(self) -> None:
        if not self.job:
            return
        text = (
            (self.result.out / "checks").read_text(errors="replace")
            if (self.result.out / "checks").exists()
            else ""
        )
        lines = text.splitlines()
        for line in lines:
            word, name, verdict, *details = line.split(" ", 3)
            with self.subTest(name):
                self.assertEqual((word, verdict), ("CHECK", "ok"), f"{name}: {' '.join(details)}")
        self.assertIn(
            "CHECK finish ok",
            text,
            f"the job did not run to its end: {self.result.status}\n{self.result.stdout[-2000:]}",
        )

    def test_kernel_is_content(self) -> None:
        if not self.job:
            return
        log = (self.result.out / "dmesg").read_text(errors="replace")
        self.assertEqual([line for line in log.splitlines() if COMPLAINT.search(line)], [])
        ends = [match.group(1) for match in EJECTED.finditer(log)]
        self.assertEqual(
            [end for end in ends if not (self.may_end and re.search(self.may_end, end))], []
        )


_early: dict[type[JobTest], Future[RunResult]] = {}
