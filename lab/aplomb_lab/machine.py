"""Boots a guest, runs a command in it, and brings back what it left: the meaning of `lab run`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from . import qemu
from .cache import Cache
from .disks import parse_all as parse_disks
from .errors import LabError
from .image import GUEST_FILES, get_image
from .initrd import write_initrd
from .kernel import DEFAULT, get_kernel
from .programs import get_programs
from .report import find_program, progress
from .results import STATUS, prepare_out, unpack_results
from .tools import Tools
from .topology import choose as choose_topology

LIMIT_S = 300.0
MEMORY_MB = 2048
# When the time limit is over, the guest is asked to send what it has, and has this long before it
# is killed.
GRACE_S = 20.0
# MTTCG may run stale instructions where another CPU has just patched the kernel's text (a static
# key, a probe): the kernel then meets a breakpoint that it has removed, and dies with "Oops: int3".
# Seen once in some 3,000 patches on a crowded host. It says nothing about the job, so such a run is
# done again, within its time limit.
ATTEMPTS = 3
_EMULATOR_FAULT = "Oops: int3: 0000"
# A CPU's timer interrupt got lost. In a guest that has started, what is tested may be at fault.
_LOST_TIMER = "kthread timer wakeup didn't happen"
_OWN_FILES = ("stdout", "console", "dmesg")


@dataclass
class RunResult:
    """How a run ended. `reason` is one of: exited, timeout, panic, died, boot-failed."""

    exit_status: int | None  # the command's own, or None if it did not end
    reason: str
    out: Path
    status: dict[str, Any]  # what status.json holds

    @property
    def stdout(self) -> str:
        """The command's standard output and standard error."""
        return (self.out / "stdout").read_text(errors="replace")

    @property
    def exit_code(self) -> int:
        """What `lab run` exits with."""
        if self.reason == "exited" and self.exit_status is not None:
            return self.exit_status
        return 124 if self.reason == "timeout" else 126


def run(
    command: Sequence[str],
    *,
    out: str | Path,
    machine: str = "timing",
    kernel: str = DEFAULT,
    memory: int = MEMORY_MB,
    limit: float = LIMIT_S,
    inputs: Sequence[str | Path | tuple[str | Path, str]] = (),
    env: Mapping[str, str] | None = None,
    quiet: bool = True,
    append: str = "",
    disk_mb: int = 0,
    accel: str | None = None,
    cache: Cache | None = None,
    cpus: int | None = None,
    topology: str | None = None,
    disks: Sequence[str] = (),
    swaps: Sequence[str] = (),
    packages: Sequence[str] = (),
) -> RunResult:
    """Run `command` in a fresh guest. Raises LabError if the lab itself cannot do it.

    inputs: host files or folders, each given to the guest as /job/NAME (a pair names it; else its
    own name).
    limit: seconds of wall time, after which the guest is ended whatever it does. append: more
    kernel parameters.
    disk_mb: size of an empty scratch disk, /dev/vda. accel: "kvm" or "tcg" instead of choosing.
    cpus: of the machine types with several. topology: as in `sockets=2,cores=2,threads=2,nodes=2`.
    disks, swaps: disks with a time of their own, as in `512M,iops=200,rate=40M,latency=4ms`
    or `512M,rpm=7200` (disks.py). packages: Debian's, beside those that all guests have; a new
    choice of them takes some minutes once.
    """
    if not command:
        raise LabError("no command to run")
    if machine not in qemu.MACHINES:
        raise LabError(
            f"there is no machine type {machine}: choose one of {', '.join(qemu.MACHINES)}"
        )
    if memory < 256:
        raise LabError(f"a guest of {memory} MB is too small to boot: give it 256 or more")
    for name in env or {}:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise LabError(f"{name!r} is no name for an environment variable")
    shape = choose_topology(machine, qemu.MACHINES[machine], cpus, topology)
    wanted = tuple(parse_disks(disks, swaps, qemu.in_virtual_time(machine)))
    pairs = _input_pairs(inputs)
    out = Path(out).absolute()
    prepare_out(out)
    cache = cache or Cache()
    tools = Tools(cache, quiet)
    chosen_kernel = get_kernel(cache, kernel, quiet)
    image = get_image(cache, quiet, packages)
    programs = get_programs(cache, quiet) if any(disk.rpm for disk in wanted) else None
    if accel is None:
        from .accel import choose  # it boots a guest itself to find out, through this function

        accel = choose(machine, cache, quiet)
    with tempfile.TemporaryDirectory(prefix="aplomb-lab-") as name:
        folder = Path(name)
        write_initrd(
            folder / "initrd",
            tools.busybox,
            chosen_kernel.boot_modules,
            GUEST_FILES,
            chosen_kernel.config,
            [str(word) for word in command],
            dict(env or {}),
            pairs,
            wanted,
            programs,
        )
        scratch = folder / "disk" if disk_mb else None
        files = {folder / disk.name: disk.size_mb for disk in wanted if disk.via == "qemu"}
        if scratch is not None:
            files[scratch] = disk_mb
        setup = qemu.Setup(
            machine,
            accel,
            memory,
            chosen_kernel,
            image,
            folder / "initrd",
            shape,
            append,
            scratch,
            wanted,
        )
        ends_at = time.monotonic() + limit
        attempt = 1
        while True:
            for file, size_mb in files.items():
                with open(file, "wb") as handle:
                    handle.truncate(size_mb << 20)
            progress(f"booting {machine} ({accel}) with kernel {chosen_kernel.release}…", quiet)
            guest = _Guest(qemu.command(tools, setup, folder), folder, out, quiet)
            guest.wait(ends_at - time.monotonic())
            result = _collect(
                guest,
                folder,
                out,
                {
                    "machine": machine,
                    "accel": accel,
                    "kernel": chosen_kernel.release,
                    "qemu": tools.qemu_version(),
                    "memory_mb": memory,
                    "cpus": shape.cpus,
                    "disks": [disk.status() for disk in wanted],
                    "command": [str(word) for word in command],
                    "attempt": attempt,
                },
                quiet,
            )
            if not (
                guest.is_emulators_fault(result.reason)
                and attempt < ATTEMPTS
                and time.monotonic() + guest.wall_s < ends_at
            ):
                return result
            attempt += 1
            progress(
                "the emulator's fault (see Traps in lab/README.md): running it again",
                quiet,
            )
            prepare_out(out)


def _input_pairs(inputs: Sequence[str | Path | tuple[str | Path, str]]) -> list[tuple[Path, str]]:
    pairs = []
    for item in inputs:
        path, name = item if isinstance(item, tuple) else (item, "")
        path = Path(path)
        if not path.exists():
            raise LabError(f"{path} does not exist: it cannot be taken into the guest")
        name = name or Path(os.path.abspath(path)).name
        if name.startswith("/") or ".." in Path(name).parts or Path(name).parts[0] == "out":
            raise LabError(
                f"{name!r} cannot be a name below /job: it is absolute, has .., or is the results' "
                "folder out"
            )
        pairs.append((path, name))
    return pairs


class _Guest:
    """A running emulator, its console and its end."""

    def __init__(self, words: list[str], folder: Path, out: Path, quiet: bool) -> None:
        self._folder, self._out, self._quiet = folder, out, quiet
        self.timed_out = False
        self.panicked = False
        self.emulator_fault = False
        self.lost_timer = False
        self.boot_failure = ""
        self._emulated = "tcg,thread=multi" in words
        self._errors = open(folder / "errors", "wb")
        self.started = time.monotonic()
        # setpriv: the guest dies with the thread that started it, also when that is killed.
        setpriv = find_program("setpriv", "util-linux")
        self._process = subprocess.Popen(
            [setpriv, "--pdeathsig", "KILL", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._reader = threading.Thread(target=self._read_console, daemon=True)
        self._reader.start()

    def _read_console(self) -> None:
        """Keep the console, each line with its wall time, and show the lines that are meant for
        people.
        """
        stream: IO[bytes] | None = self._process.stdout
        assert stream is not None
        with open(self._out / "console", "wb") as target:
            for line in stream:
                line = line.rstrip(b"\r\n")
                target.write(b"%9.3f %s\n" % (time.monotonic() - self.started, line))
                target.flush()
                text = line.decode(errors="replace")
                if "Kernel panic - not syncing" in text:
                    self.panicked = True
                if _EMULATOR_FAULT in text and self._emulated:
                    self.emulator_fault = True
                if _LOST_TIMER in text and self._emulated:
                    self.lost_timer = True
                if text.startswith("LAB boot failed: "):
                    self.boot_failure = text.removeprefix("LAB boot failed: ")
                if text.startswith(("progress: ", "LAB ")):
                    progress(f"guest: {text.removeprefix('progress: ')}", self._quiet)

    def is_emulators_fault(self, reason: str) -> bool:
        """Whether a guest that ended for this reason is worth another try."""
        return self.emulator_fault or (self.lost_timer and reason == "boot-failed")

    def _poll(self, until: float) -> bool:
        """Wait for the guest's end until that time; did it end?"""
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
            return True
        except subprocess.TimeoutExpired:
            return False

    def wait(self, limit: float) -> None:
        try:
            if not self._poll(self.started + limit):
                self.timed_out = True
                progress(
                    f"the time limit of {limit:g} s is over: asking the guest for what it has…",
                    self._quiet,
                )
                assert self._process.stdin is not None
                try:
                    self._process.stdin.write(b"lab-stop\n")
                    self._process.stdin.flush()
                except OSError:
                    pass  # it ended just now
                self._poll(time.monotonic() + GRACE_S)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self.wall_s = time.monotonic() - self.started
            self._reader.join(5)
            for stream in (self._process.stdin, self._process.stdout):
                try:
                    stream.close() if stream else None
                except OSError:
                    pass
            self._errors.close()
        self.code = self._process.returncode
        self.errors = (self._folder / "errors").read_text(errors="replace").strip()


def _collect(
    guest: _Guest, folder: Path, out: Path, status: dict[str, Any], quiet: bool
) -> RunResult:
    """Put everything into the results' folder and say how the run ended."""
    words: dict[str, list[str]] = {}
    try:
        for line in (folder / "status").read_text(errors="replace").splitlines():
            name, *rest = line.split()
            words[name] = rest
    except OSError:
        pass
    if guest.code not in (0, -9) and "start" not in words:
        raise LabError(f"QEMU failed with status {guest.code}: {guest.errors or 'it said nothing'}")
    names: list[str] = []
    whole = False
    if (folder / "results").exists() and (folder / "results").stat().st_size:
        names, whole = unpack_results(folder / "results", out)
    shutil.copyfile(folder / "stdout", out / "stdout") if (folder / "stdout").exists() else (
        out / "stdout"
    ).write_bytes(b"")
    if "dmesg" not in names:
        # No log came: what the kernel said on its console is the next best.
        shutil.copyfile(out / "console", out / "dmesg")
    exit_status = int(words["exit"][0]) if "exit" in words else None
    boot_s = float(words["start"][0]) if "start" in words else None
    ended = words.get("exit", [])[1:] or words.get("collecting", [])
    if guest.panicked:
        reason = "panic"
    elif exit_status is not None and (whole or not guest.timed_out):
        reason = "exited" if whole else "died"
    elif guest.timed_out:
        reason = "timeout"
    else:
        reason = "boot-failed" if boot_s is None else "died"
    status |= {
        "exit_status": exit_status,
        "reason": reason,
        "wall_s": round(guest.wall_s, 2),
        "boot_s": boot_s,
        "guest_s": round(float(ended[0]) - boot_s, 2) if ended and boot_s is not None else None,
        "results_complete": whole,
    }
    if guest.boot_failure:
        status["boot_failure"] = guest.boot_failure
    if guest.is_emulators_fault(reason):
        status["emulator_fault"] = True
    if guest.errors:
        status["qemu_errors"] = guest.errors
    status["files"] = sorted({*names, *_OWN_FILES})
    (out / STATUS).write_text(json.dumps(status, indent=1) + "\n")
    progress(
        f"{reason}, exit status {exit_status}, {status['guest_s']} s in the guest, "
        f"{guest.wall_s:.1f} s here",
        quiet,
    )
    return RunResult(exit_status, reason, out, status)
