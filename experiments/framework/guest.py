"""Runs the steps of one scheduler in a guest of the lab, and reads back what they left.

The guest's side is guest/harness.sh. That the scheduler named was really the one that ran is
checked twice: the harness stops at once if it is not, and here the records of what ran before and
after each step are compared again.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .errors import ExperimentError
from .experiment import Experiment, Profile, Step
from .schedulers import ROOT, Scheduler

sys.path.insert(0, str(ROOT / "lab"))
from aplomb_lab import LabError
from aplomb_lab import run as run_lab

GUEST = ROOT / "experiments" / "guest"
WORKLOADS = ROOT / "target" / "workloads"
# A guest takes at most this much guest time, so that a long list of steps is divided over the
# parallel guests.
SECONDS_PER_GUEST = 240
# Wall time allowed: so much for boot, attach and end, and so much for each second of guest time.
# Busy virtual seconds take 0.4 to 0.9 s on a quiet host; the rest is for busy ones.
# A swap device costs more at boot, where each of its pages is written.
LIMIT_BASE_S, LIMIT_PER_S, LIMIT_PER_SWAP_S = 300, 5, 600


@dataclass(frozen=True)
class Boot:
    """Steps of one scheduler that share a guest."""

    scheduler: Scheduler
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        return sum(step.seconds for step in self.steps)


@dataclass(frozen=True)
class Outcome:
    """What one guest brought: samples by step, and the lab's status (kernel, qemu, times)."""

    samples: dict[str, dict[str, Any]]
    status: dict[str, Any]


class SchedulerMismatch(ExperimentError):
    """The kernel ran another scheduler than the one that a measurement names."""


class PeerEnded(ExperimentError):
    """The kernel ended a peer in the middle of a measurement (its watchdog): a finding about the
    peer, not a failure."""


# The kernel's own words, for any reason but that the scheduler took its leave.
ENDED = re.compile(
    r'sched_ext: BPF scheduler "[^"]*" disabled \((?!unregistered)(.*)\)\s*\n'
    r"(?:.*sched_ext: [^:]*: (.*))?"
)


def check_peer(scheduler: Scheduler, failure: str, log: str) -> None:
    """Raise PeerEnded if the failure of a run was that the kernel had ended the peer, by the
    kernel's log."""
    ended = ENDED.search(log)
    if ended and scheduler.name.startswith("scx_"):
        raise PeerEnded(
            f"{scheduler.name}: the kernel ended it: "
            f"{', '.join(part for part in ended.groups() if part)} "
            f"({failure})"
        )


def divide(scheduler: Scheduler, steps: Sequence[Step]) -> list[Boot]:
    """Steps in order, in guests of about equal length and at most SECONDS_PER_GUEST (or one
    step)."""
    total = sum(step.seconds for step in steps)
    share = total / max(1, -(-total // SECONDS_PER_GUEST))
    boots: list[list[Step]] = [[]]
    for step in steps:
        if boots[-1] and sum(s.seconds for s in boots[-1]) + step.seconds > share * 1.05:
            boots.append([])
        boots[-1].append(step)
    return [Boot(scheduler, tuple(part)) for part in boots if part]


def build_workloads() -> None:
    done = subprocess.run(
        ["make", "-s", "-C", ROOT / "experiments" / "workloads", f"OUT={WORKLOADS}"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ExperimentError(
            f"the workloads do not compile (apt-get install gcc make libc6-dev):\n{done.stderr}"
        )


def check_read_back(scheduler: Scheduler, step: str, before: str, after: str) -> None:
    """Raise SchedulerMismatch unless both records say that this scheduler ran, and that it was
    never exchanged.

    A record is "STATE NAME ENABLE_SEQ NR_REJECTED" of /sys/kernel/sched_ext; NAME is "stock" for
    the kernel's own.
    """
    for when, record in (("before", before), ("after", after)):
        words = record.split()
        if len(words) != 4:
            raise SchedulerMismatch(f"{step}: what ran {when} it is not known: {record!r}")
        state, name = words[:2]
        right = (
            (state == "enabled" and name.split("_")[0] == scheduler.ops)
            if scheduler.ops
            else (state == "disabled" and name == "stock")
        )
        if not right:
            raise SchedulerMismatch(
                f"{step}: {when} it the kernel ran {name} ({state}), not {scheduler.name}"
            )
    if before.split()[2] != after.split()[2]:
        raise SchedulerMismatch(f"{step}: the scheduler was started anew in the middle of it")


def _libraries(binary: Path) -> list[Path]:
    """Shared libraries of a peer that the guest's base system may lack (all but glibc's own)."""
    done = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
    paths = [
        Path(line.split("=>")[1].split()[0]) for line in done.stdout.splitlines() if "=> /" in line
    ]
    own = ("libc.", "libm.", "libdl.", "libpthread.", "librt.", "ld-linux")
    return [path for path in paths if not path.name.startswith(own)]


def write_profiles(experiment: Experiment, steps: Sequence[Step], folder: Path) -> None:
    """What aplomb's daemon reads for every profile that the steps use: NAME/vendor, the shipped
    specifications or none, and NAME/spec.tab, the administrator's, which are stronger;
    NAME/aplomb.toml, the settings."""
    for name in {step.profile for step in steps} - {"off"}:
        if name not in experiment.profiles and name != "shipped":
            raise ExperimentError(f"{experiment.name}: there is no profile {name!r}")
        profile = experiment.profiles.get(name, Profile())
        (folder / name / "vendor").mkdir(parents=True)
        if not profile.only:
            for file in (ROOT / "specs").glob("*.toml"):
                shutil.copy(file, folder / name / "vendor")
        (folder / name / "spec.tab").write_text("".join(line + "\n" for line in profile.lines))
        (folder / name / "aplomb.toml").write_text("".join(line + "\n" for line in profile.config))


def run_boot(experiment: Experiment, boot: Boot, keep: Path, quiet: bool = False) -> Outcome:
    """Boot a guest, run the steps, return what they left. Raises ExperimentError. keep: folder for
    the guest's output."""
    scheduler = boot.scheduler
    with tempfile.TemporaryDirectory(prefix="aplomb-experiment-") as name:
        folder = Path(name)
        plan = [shlex.join(["step", step.name, step.profile, *step.words]) for step in boot.steps]
        (folder / "plan").write_text("\n".join(plan) + "\n")
        inputs: list[Path | tuple[Path, str]] = [
            GUEST / "job",
            GUEST / "harness.sh",
            GUEST / "domains.sh",
            GUEST / "memory.sh",
            GUEST / "beside.sh",
            GUEST / "disk.sh",
            GUEST / "link.sh",
            GUEST / "masks.sh",
            GUEST / "reserves.sh",
            GUEST / "enter",
            folder / "plan",
        ]
        inputs += experiment.inputs
        inputs += sorted(
            path for path in WORKLOADS.iterdir() if os.access(path, os.X_OK) and path.is_file()
        )
        command = ["/job/job"]
        if scheduler.binary is not None:
            inputs.append((scheduler.binary, scheduler.name))
        if scheduler.name == "aplomb":
            write_profiles(experiment, boot.steps, folder / "profiles")
            inputs.append(folder / "profiles")
        elif scheduler.binary is not None:
            command += [f"/job/{scheduler.name}", *scheduler.options]
            inputs += [(library, f"lib/{library.name}") for library in _libraries(scheduler.binary)]
        try:
            result = run_lab(
                command,
                out=keep,
                machine=experiment.machine,
                cpus=experiment.cpus,
                memory=experiment.memory_mb,
                disks=experiment.disks,
                swaps=experiment.swaps,
                packages=experiment.packages,
                inputs=inputs,
                quiet=quiet,
                limit=LIMIT_BASE_S
                + LIMIT_PER_SWAP_S * len(experiment.swaps)
                + LIMIT_PER_S * boot.seconds,
                env={"SCHEDULER": scheduler.name, "OPS": scheduler.ops},
            )
        except LabError as error:
            raise ExperimentError(f"lab: {error}") from error
    return read_boot(experiment, boot, keep, result.status, result.stdout)


def read_boot(
    experiment: Experiment, boot: Boot, folder: Path, status: dict[str, Any], said: str = ""
) -> Outcome:
    """Judge and read the folders of the steps. Raises ExperimentError if the guest or a step
    failed."""
    scheduler = boot.scheduler
    failure = folder / "failure"
    if failure.exists():
        log = folder / "dmesg"
        check_peer(
            scheduler,
            failure.read_text().strip(),
            log.read_text(errors="replace") if log.exists() else "",
        )
        raise ExperimentError(
            f"{scheduler.name}: {failure.read_text().strip()} (guest's output: {folder})"
        )
    if status["reason"] != "exited" or status["exit_status"]:
        raise ExperimentError(
            f"{scheduler.name}: the guest ended with {status['reason']}, exit status "
            f"{status['exit_status']}: {said[-400:].strip()} (guest's output: {folder})"
        )
    samples: dict[str, dict[str, Any]] = {}
    for step in boot.steps:
        place = folder / step.name
        try:
            check_read_back(
                scheduler, step.name, (place / "before").read_text(), (place / "after").read_text()
            )
            samples[step.name] = dict(experiment.read(place))
        except (OSError, ValueError, KeyError) as error:
            raise ExperimentError(
                f"{scheduler.name}, {step.name}: its results cannot be read: {error} "
                f"(guest's output: {folder})"
            ) from error
    return Outcome(samples, status)
