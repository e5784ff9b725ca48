"""Writes the initramfs of one run: busybox, the modules that the root needs, the lab's init, and
the job's files.

The archive format (cpio "newc") is written here, since it is thirty lines and spares the host a
package.
"""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from .disks import Disk
from .errors import LabError


class Archive:
    """A cpio archive being written. All files belong to root, also if another user runs the lab."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._inode = 0
        self._folders: set[str] = set()

    def _entry(
        self, name: str, mode: int, data: bytes, mtime: int = 0, device: tuple[int, int] = (0, 0)
    ) -> None:
        self._inode += 1
        encoded = os.fsencode(name) + b"\0"
        fields = (self._inode, mode, 0, 0, 1, mtime, len(data), 0, 0, *device, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        self._target.write(head + b"\0" * (-len(head) % 4))
        self._target.write(data)
        self._target.write(b"\0" * (-len(data) % 4))

    def folder(self, name: str, mode: int = 0o755) -> None:
        """A folder and the folders above it."""
        parent = os.path.dirname(name)
        if parent:
            self.folder(parent)
        if name not in self._folders:
            self._folders.add(name)
            self._entry(name, stat.S_IFDIR | mode, b"")

    def file(self, name: str, data: bytes, mode: int = 0o644, mtime: int = 0) -> None:
        self.folder(os.path.dirname(name)) if os.path.dirname(name) else None
        self._entry(name, stat.S_IFREG | mode, data, mtime)

    def link(self, name: str, target: str) -> None:
        self._entry(name, stat.S_IFLNK | 0o777, os.fsencode(target))

    def device(self, name: str, major: int, minor: int) -> None:
        self._entry(name, stat.S_IFCHR | 0o600, b"", device=(major, minor))

    def tree(self, source: Path, name: str) -> None:
        """A host file or folder with all below it; links below a folder stay links, the top one is
        followed.
        """
        source = source.resolve()
        try:
            if source.is_dir():
                self.folder(name, stat.S_IMODE(source.stat().st_mode) | 0o700)
                for item in sorted(source.iterdir()):
                    if item.is_symlink():
                        self.link(f"{name}/{item.name}", os.readlink(item))
                    else:
                        self.tree(item, f"{name}/{item.name}")
            elif source.is_file():
                info = source.stat()
                self.file(name, source.read_bytes(), stat.S_IMODE(info.st_mode), int(info.st_mtime))
            else:
                raise LabError(
                    f"{source} is neither a file nor a folder: it cannot be taken into the guest"
                )
        except OSError as error:
            raise LabError(f"cannot read {error.filename or source}: {error.strerror}") from error

    def close(self) -> None:
        self._entry("TRAILER!!!", 0, b"")


def job_script(argv: list[str], env: dict[str, str]) -> bytes:
    """The job for the guest's shell: every word quoted, so that it comes through as it is."""
    lines = [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    # The init runs at real-time priority; the job starts as an ordinary task.
    lines.append("exec chrt -o 0 " + " ".join(shlex.quote(word) for word in argv))
    return os.fsencode("\n".join(lines) + "\n")


def write_initrd(
    path: Path,
    busybox: Path,
    boot_modules: list[Path],
    guest_files: Path,
    config: Path,
    argv: list[str],
    env: dict[str, str],
    inputs: list[tuple[Path, str]],
    disks: Sequence[Disk] = (),
    programs: Path | None = None,
) -> None:
    """The whole initramfs of one run. programs: a folder of those that the lab itself runs."""
    with open(path, "wb") as target:
        archive = Archive(target)
        for name in ("proc", "sys", "dev", "newroot", "job", "lab"):
            archive.folder(name)
        archive.device(
            "dev/console", 5, 1
        )  # the kernel opens it for init before init can mount anything
        archive.file("bin/busybox", busybox.read_bytes(), 0o755)
        for module in boot_modules:
            archive.file(f"mod/{module.name}", module.read_bytes())
        archive.file("mod/order", "".join(m.name + "\n" for m in boot_modules).encode())
        archive.file("init", (guest_files / "initramfs-init").read_bytes(), 0o755)
        archive.file("lab/init", (guest_files / "guest-init").read_bytes(), 0o755)
        archive.file("lab/make-disks", (guest_files / "make-disks").read_bytes())
        if disks:
            archive.file("lab/disks", "".join(disk.line() + "\n" for disk in disks).encode())
        if programs is not None:
            archive.tree(programs, "lab/programs")
        for library in sorted(guest_files.glob("lib*.sh")):
            archive.file(f"lab/{library.name}", library.read_bytes())
        archive.file("lab/config", config.read_bytes())
        archive.file("lab/job", job_script(argv, env))
        for source, name in inputs:
            archive.tree(source, f"job/{name}")
        archive.close()
