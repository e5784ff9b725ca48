"""The cache of built things (tools, kernels, images): each entry is whole, checked, and named by
its recipe.

An entry is a folder KIND-HASH. It is built in a temporary folder beside it and renamed into place
when its manifest is written, so an interrupted build leaves nothing that looks finished. A lock per
entry keeps two runs from building the same thing at once. Clones share the cache, since the name
depends on the recipe alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import LabError
from .report import progress

MANIFEST = "manifest.json"
# Files up to this size are read and hashed once per process (the tools and a kernel: some 0.2 s).
# Of larger ones, which means the root image, only the size, the time stamp and the first and last
# MiB are compared, since reading gigabytes would double the time of a short run; if the time stamp
# differs, the whole file is hashed.
SMALL = 64 << 20
EDGE = 1 << 20


def cache_root() -> Path:
    """Where built things are kept, shared by all clones of one user."""
    chosen = os.environ.get("APLOMB_LAB_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "aplomb-lab"


def recipe_hash(*parts: str | bytes) -> str:
    """A short name for a recipe: any change of any part gives another."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(
            len(data).to_bytes(8, "big") + data
        )  # lengths keep ("ab", "c") and ("a", "bc") apart
    return total.hexdigest()[:16]


def _hash_file(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _hash_edges(path: Path, size: int) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as handle:
        total.update(handle.read(EDGE))
        handle.seek(max(0, size - EDGE))
        total.update(handle.read(EDGE))
    return total.hexdigest()


def write_manifest(folder: Path) -> None:
    """List every file and link below folder, with what is needed to see later that none has
    changed.
    """
    entries: dict[str, dict[str, object]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            entries[name] = {"link": os.readlink(path)}
        elif path.is_file():
            info = path.stat()
            entries[name] = {
                "size": info.st_size,
                "mtime_ns": info.st_mtime_ns,
                "sha256": _hash_file(path),
            }
            if info.st_size > SMALL:
                entries[name]["edges"] = _hash_edges(path, info.st_size)
    temporary = folder / (MANIFEST + ".new")
    temporary.write_text(json.dumps(entries, indent=0))
    with open(temporary) as handle:
        os.fsync(handle.fileno())
    temporary.rename(folder / MANIFEST)


def find_damage(folder: Path) -> str | None:
    """What is wrong with an entry, in words, or None if it is whole."""
    try:
        entries = json.loads((folder / MANIFEST).read_text())
    except FileNotFoundError:
        return "it has no manifest"
    except (OSError, ValueError) as error:
        return f"its manifest cannot be read ({error})"
    for name, wanted in entries.items():
        path = folder / name
        try:
            if "link" in wanted:
                if os.readlink(path) != wanted["link"]:
                    return f"the link {name} has changed"
                continue
            info = path.stat()
            if info.st_size != wanted["size"]:
                return f"{name} has {info.st_size} bytes, not {wanted['size']}"
            if info.st_size <= SMALL or info.st_mtime_ns != wanted["mtime_ns"]:
                good = _hash_file(path) == wanted["sha256"]
            else:
                good = _hash_edges(path, info.st_size) == wanted["edges"]
            if not good:
                return f"the contents of {name} have changed"
        except OSError as error:
            return f"{name}: {error.strerror}"
    return None


class Cache:
    """Entries below one folder. Verification is remembered for the life of the process."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_root()
        self._verified: set[str] = set()

    def prepare(self) -> None:
        try:
            (self.root / "locks").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LabError(
                f"cannot make the cache folder {self.root}: {error.strerror} "
                "(set APLOMB_LAB_CACHE to a folder that you may write)"
            ) from error

    @contextlib.contextmanager
    def lock(self, name: str, quiet: bool = False) -> Iterator[None]:
        """Hold the lock of one entry; the kernel lets go of it when the holder dies."""
        self.prepare()
        with open(self.root / "locks" / name, "w") as handle:
            patience = (
                time.monotonic() + 3
            )  # a check by another run takes less and is not worth a word
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > patience:
                        progress(f"waiting for another run that builds {name}…", quiet)
                        fcntl.flock(handle, fcntl.LOCK_EX)
                        break
                    time.sleep(0.02)
            yield

    def get(self, name: str, build: Callable[[Path], None], what: str, quiet: bool = False) -> Path:
        """The folder of an entry, built now if it is absent or damaged. `what`: its name."""
        folder = self.root / name
        if name in self._verified and (folder / MANIFEST).exists():
            return folder
        with self.lock(name, quiet):
            if folder.exists():
                damage = find_damage(folder)
                if damage is None:
                    self._verified.add(name)
                    return folder
                progress(f"the cached {what} is damaged ({damage}): building it anew", quiet)
                shutil.rmtree(folder)
            work = self.root / f"building-{name}"
            if work.exists():  # left by a build that was killed; the lock says that it runs no more
                shutil.rmtree(work)
            work.mkdir(mode=0o755)
            try:
                build(work)
                write_manifest(work)
            except BaseException:
                # Keep a failed build's log, which the error names; drop its gigabytes.
                for item in work.iterdir():
                    if item.suffix != ".log":
                        shutil.rmtree(
                            item
                        ) if item.is_dir() and not item.is_symlink() else item.unlink()
                raise
            work.rename(folder)
            self._verified.add(name)
            return folder

    def entries(self) -> list[Path]:
        """All entries, also unfinished ones."""
        if not self.root.is_dir():
            return []
        return sorted(p for p in self.root.iterdir() if p.is_dir() and p.name != "locks")

    def remove(self, folder: Path) -> None:
        """Delete one entry. A guest that still uses it keeps its open files."""
        with self.lock(folder.name.removeprefix("building-")):
            shutil.rmtree(folder, ignore_errors=True)
        self._verified.discard(folder.name)
