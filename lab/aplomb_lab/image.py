"""The guest's root image: Debian trixie with real programs, clips to play and a source tree to
compile.

mmdebstrap makes it as a tar archive, as root or (through user name spaces) as any user; mke2fs
turns the archive into an ext4 file. What goes in is said in lab/guest/: packages.txt, build-image
(runs inside, at the end), compile, make-clips. Kernels are not part of it, so that one image serves
all of them; nor are the lab's own programs (lab/guest/programs), which the host compiles and a run
takes along, so that changing them costs no new image.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

from .apt import Apt, host_acquire_options, source_lines
from .cache import Cache, recipe_hash
from .report import call, find_program, progress
from .tools import Tools

GUEST_FILES = Path(__file__).resolve().parent.parent / "guest"
# What of lab/guest goes into the image. The inits do not: they come with each run's initramfs, so
# changing them costs no new image.
_IN_IMAGE = ["build-image", "compile", "make-clips"]
COMPILE_SOURCE = "lua5.4"  # the Debian source package whose authors' tree /lab/compile builds
FREE_MB = 512  # room for guests that write to their root
FORMAT = "1"  # raise it when this file makes something else of the same recipe


def package_list() -> list[str]:
    lines = (GUEST_FILES / "packages.txt").read_text().splitlines()
    return [word for line in lines for word in line.partition("#")[0].split()]


def entry_name(more: Sequence[str] = ()) -> str:
    """The cache entry of the image that the present recipe makes. more: as of get_image()."""
    packages = [*package_list(), *sorted(more)]
    parts: list[str | bytes] = [FORMAT, COMPILE_SOURCE, str(FREE_MB), *packages]
    for name in _IN_IMAGE:
        path = GUEST_FILES / name
        for item in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if item.is_file():
                parts += [str(item.relative_to(GUEST_FILES)), item.read_bytes()]
    return "image-" + recipe_hash(*parts)


def get_image(cache: Cache, quiet: bool = False, more: Sequence[str] = ()) -> Path:
    """The root image's file, built now if the cache lacks it. more: packages beside those that all
    guests have; each choice of them is an image of its own."""
    tools = Tools(cache, quiet)
    folder = cache.get(
        entry_name(more),
        lambda work: _build(work, cache, tools, quiet, more),
        "root image",
        quiet,
    )
    return folder / "root.img"


def _build(work: Path, cache: Cache, tools: Tools, quiet: bool, more: Sequence[str]) -> None:
    mmdebstrap = find_program("mmdebstrap", "mmdebstrap")
    if os.geteuid() != 0:
        find_program(
            "newuidmap", "uidmap"
        )  # mmdebstrap needs it to be root in a name space of its own
    progress("building the root image (about five minutes, once)…", quiet)
    source = Apt(cache, quiet).download_source(COMPILE_SOURCE, work / "source")
    # One archive with the lab's own files, which mmdebstrap unpacks in the new system.
    extras = work / "extras.tar"
    with tarfile.open(extras, "w") as archive:
        for name in _IN_IMAGE:
            archive.add(GUEST_FILES / name, f"lab/{name}", filter=_owned_by_root)
        archive.add(source, f"lab/source/{source.name}", filter=_owned_by_root)
    (work / "sources.list").write_text(source_lines(suites=["trixie"]))
    tar = work / "root.tar"
    log = work / "mmdebstrap.log"
    words: list[str | Path] = [
        mmdebstrap,
        "--variant=minbase",
        "--architectures=amd64",
        "--format=tar",
        "--include=" + ",".join([*package_list(), *more]),
    ]
    words += [
        f'--aptopt={option.split("=", 1)[0]} "{option.split("=", 1)[1]}"'
        for option in host_acquire_options()
    ]
    words += [
        # Documents and translations are half of the files, and no test reads them.
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        "--dpkgopt=path-exclude=/usr/share/info/*",
        f"--customize-hook=tar-in {_quoted(extras)} /",
        '--customize-hook=chroot "$1" sh /lab/build-image',
        "trixie",
        tar,
        work / "sources.list",
    ]
    call(words, log=log, what="mmdebstrap")
    progress("writing the image's file system…", quiet)
    with tarfile.open(tar) as archive:
        content = sum((member.size + 4095) // 4096 * 4096 + 512 for member in archive)
    # Persistent memory comes in sections of 128 MiB; a tenth is for the file system's own tables.
    size = (content * 11 // 10 // 1_048_576 + FREE_MB + 127) // 128 * 128
    call(
        [
            tools.path("mke2fs"),
            "-q",
            "-t",
            "ext4",
            "-m",
            "0",
            "-L",
            "lab",
            "-d",
            tar,
            work / "root.img",
            f"{size}M",
        ],
        what="mke2fs for the root image",
    )
    for item in (tar, extras, work / "sources.list"):
        item.unlink()
    for item in (work / "source").iterdir():
        item.unlink()
    (work / "source").rmdir()


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _quoted(path: Path) -> str:
    """mmdebstrap splits a hook like a shell."""
    return "'" + str(path).replace("'", "'\\''") + "'"
