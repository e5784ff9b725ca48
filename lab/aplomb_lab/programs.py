"""The programs that the lab itself runs in a guest before the job starts (guest/programs).

The host compiles them into the cache, with its own compiler and liburing, when a guest needs them.
"""

from __future__ import annotations

from pathlib import Path

from .cache import Cache, recipe_hash
from .image import GUEST_FILES
from .report import call, find_program, progress

FOLDER = GUEST_FILES / "programs"
NAMES = ("rotating",)


def entry_name() -> str:
    """The cache entry of the programs that the present source makes."""
    sources = [FOLDER / "programs.mk", *(FOLDER / f"{name}.c" for name in NAMES)]
    sources += sorted(FOLDER.glob("*.h"))
    return "programs-" + recipe_hash(*(source.read_bytes() for source in sources))


def get_programs(cache: Cache, quiet: bool = False) -> Path:
    """The folder of the built programs, from the cache or built now."""
    return cache.get(entry_name(), lambda work: _build(work, quiet), "programs", quiet)


def _build(work: Path, quiet: bool) -> None:
    progress(f"compiling {', '.join(NAMES)}…", quiet)
    make = find_program("make", "build-essential liburing-dev")
    call(
        [make, "-s", "-C", FOLDER, f"OUT={work}", *(work / name for name in NAMES)],
        what=f"compiling {', '.join(NAMES)} (Debian's build-essential and liburing-dev are needed)",
    )
