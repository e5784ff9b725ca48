"""What comes back from a guest: unpacks the results archive and clears an earlier run's files."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

from .errors import LabError

STATUS = "status.json"


def prepare_out(out: Path) -> None:
    """Make the folder for results; remove what an earlier run put there, so that old files are not
    read as new.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        status = out / STATUS
        if status.exists():
            try:
                names = json.loads(status.read_text()).get("files", [])
            except (ValueError, AttributeError):
                names = []
            for name in sorted(names, key=len, reverse=True):
                path = out / name
                if path.is_symlink() or path.is_file():
                    path.unlink()
                elif path.is_dir() and not any(path.iterdir()):
                    path.rmdir()
            status.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(
            f"cannot use {out} for results: {error.strerror} ({error.filename})"
        ) from error


def unpack_results(archive_path: Path, out: Path) -> tuple[list[str], bool]:
    """Unpack what the guest sent; returns the names of what came, and whether the archive was
    whole.

    The guest may have run anything as root, so only plain files, folders and links are taken, and
    nothing that leads out of the folder.
    """
    names: list[str] = []
    try:
        with tarfile.open(archive_path) as archive:
            for member in archive:
                name = os.path.normpath(member.name)
                if name == "out":
                    continue
                name = name.removeprefix("out/")
                if name.startswith(("/", "..")) or not (
                    member.isfile() or member.isdir() or member.issym()
                ):
                    continue
                target = out / name
                if not target.parent.resolve().is_relative_to(out.resolve()):
                    continue
                names.append(name)
                if member.isdir():
                    target.mkdir(parents=True, exist_ok=True)
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                if member.issym():
                    target.symlink_to(member.linkname)
                    continue
                source = archive.extractfile(member)
                assert source is not None  # it is a file
                with source, open(target, "wb") as copy:
                    while chunk := source.read(1 << 20):
                        copy.write(chunk)
                target.chmod(0o755 if member.mode & 0o100 else 0o644)
                os.utime(target, (member.mtime, member.mtime))
    except (tarfile.TarError, EOFError):
        return names, False
    except OSError as error:
        raise LabError(
            f"cannot write the results to {out}: {error.strerror} ({error.filename})"
        ) from error
    return names, True
