"""Progress lines and outside commands: how the lab tells what it does, and how it runs other
programs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import LabError

_lock = threading.Lock()


def progress(text: str, quiet: bool = False) -> None:
    """One line to standard error; whole lines only, since several guests may run from several
    threads.
    """
    if quiet or os.environ.get("APLOMB_LAB_QUIET"):
        return
    with _lock:
        print(f"lab: {text}", file=sys.stderr, flush=True)


def find_program(name: str, package: str) -> str:
    """The path of a host program, or an error that says which package has it."""
    # Debian's users have no sbin in their PATH, yet some programs live there.
    path = shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin")
    if path is None:
        raise LabError(
            f"the program {name} is missing: run `lab/lab setup`, or: apt-get install {package}"
        )
    return path


def call(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    log: Path | None = None,
    what: str | None = None,
) -> str:
    """Run a program to its end and return its standard output; raise LabError with its last words
    if it fails.

    With `log`, everything that it prints goes to that file (for long builds), and the error names
    the file.
    """
    # setpriv: a build that the lab started must not go on when the lab is killed, since another lab
    # may start over.
    words = (
        ["setpriv", "--pdeathsig", "TERM", *(str(a) for a in argv)]
        if log is not None
        else [str(a) for a in argv]
    )
    merged = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", **(env or {})}
    handle = open(log, "ab") if log is not None else None
    try:
        done = subprocess.run(
            words,
            env=merged,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=handle or subprocess.PIPE,
            stderr=subprocess.STDOUT if handle else subprocess.PIPE,
        )
    except OSError as error:
        raise LabError(f"cannot start {argv[0]}: {error.strerror}") from error
    finally:
        if handle:
            handle.close()
    if done.returncode != 0:
        said = log.read_bytes() if log is not None else (done.stderr or b"") or (done.stdout or b"")
        lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith(("E:", "error:"))] or lines[-3:]
        where = f" (all of it: {log})" if log is not None else ""
        raise LabError(
            f"{what or Path(argv[0]).name} failed with status {done.returncode}: "
            f"{' | '.join(errors[:4]) or 'it printed nothing'}{where}"
        )
    return "" if handle else done.stdout.decode(errors="replace")
