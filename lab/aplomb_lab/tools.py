"""The lab's own tools, from Debian trixie: QEMU 10, e2fsprogs, kmod, busybox, unpacked privately
with their libraries.

The same builds run on Debian 12 and 13, through their own dynamic loader, so every machine measures
with one and the same emulator and nothing is installed. QEMU must be 10 or newer: 7.2 (Debian 12's)
kills guests whose kernel text is patched while a second CPU runs (see lab/README.md). mke2fs must
be 1.47.1 or newer to read a tar archive.
"""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

from .apt import Apt, unpack
from .cache import Cache, recipe_hash
from .errors import LabError
from .report import call, progress

PACKAGES = ["qemu-system-x86", "e2fsprogs", "libarchive13t64", "kmod", "busybox-static", "zstd"]
FORMAT = "2"  # raise it when what is built from the packages changes
LIBRARIES = "usr/lib/x86_64-linux-gnu"

# Each tool gets a small script, so that it can also be called by hand. QEMU cannot find its modules
# by itself when the loader is the program that the kernel started, hence the variable; the
# firmware's folders are named likewise.
_SCRIPT = """#!/bin/sh
# Made by lab/aplomb_lab/tools.py: runs {name} with the libraries that it was unpacked with.
root=$(dirname "$(dirname "$(readlink -f "$0")")")/root
export QEMU_MODULE_DIR="$root/{libraries}/qemu"
exec "$root/{libraries}/ld-linux-x86-64.so.2" --argv0 {name} \\
  --library-path "$root/{libraries}:$root/{libraries}/systemd" "$root/{path}" {options}"$@"
"""
_QEMU_OPTIONS = (
    '-L "$root/usr/share/qemu" -L "$root/usr/share/seabios" -L "$root/usr/lib/ipxe/qemu" '
)
_TOOLS = {
    "qemu-system-x86_64": ("usr/bin/qemu-system-x86_64", _QEMU_OPTIONS),
    "qemu-img": ("usr/bin/qemu-img", ""),
    "mke2fs": ("usr/sbin/mke2fs", ""),
    "debugfs": ("usr/sbin/debugfs", ""),
    "zstd": ("usr/bin/zstd", ""),
    # kmod acts by the name that it is called by
    "depmod": ("usr/bin/kmod", ""),
}


def check_architecture() -> None:
    if platform.machine() not in ("x86_64", "amd64"):
        raise LabError(
            f"the lab knows only amd64, and this machine is {platform.machine()}: kernels, QEMU "
            "and the root image are taken for amd64"
        )


class Tools:
    """The unpacked tools."""

    def __init__(self, cache: Cache, quiet: bool = False) -> None:
        check_architecture()
        name = "tools-" + recipe_hash(FORMAT, " ".join(PACKAGES), _SCRIPT, repr(_TOOLS))
        self.folder = cache.get(name, lambda work: _build(work, cache, quiet), "tools", quiet)
        self.busybox = self.folder / "root/usr/bin/busybox"

    def path(self, name: str) -> Path:
        return self.folder / "bin" / name

    def qemu_version(self) -> str:
        return (self.folder / "qemu-version").read_text().strip()


def _build(work: Path, cache: Cache, quiet: bool) -> None:
    progress("fetching QEMU and other tools (45 MB, once)…", quiet)
    packages = Apt(cache, quiet).download_with_dependencies(PACKAGES, work / "packages")
    root = work / "root"
    unpack(packages, root)
    shutil.rmtree(work / "packages")
    for junk in (
        "usr/share/doc",
        "usr/share/man",
        "usr/share/locale",
        "usr/share/info",
        "usr/lib/ssl",
        "etc",
        "var",
    ):
        shutil.rmtree(root / junk, ignore_errors=True)
    (work / "bin").mkdir()
    for name, (path, options) in _TOOLS.items():
        if not (root / path).exists():
            continue
        script = work / "bin" / name
        script.write_text(
            _SCRIPT.format(name=name, path=path, options=options, libraries=LIBRARIES)
        )
        script.chmod(0o755)
    said = call([work / "bin/qemu-system-x86_64", "--version"])
    match = re.search(r"version (\d+)\.(\d+)\.(\d+)", said)
    if not match or int(match[1]) < 10:
        raise LabError(
            f"QEMU 10 or newer is needed, and the mirror's trixie gave: {said.splitlines()[0]}"
        )
    (work / "qemu-version").write_text(".".join(match.groups()) + "\n")
