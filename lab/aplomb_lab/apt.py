"""Packages through apt, without touching the host's apt: a private state folder and a source list
of our own.

The mirror is the one that the host itself uses, read from its source lists, so no host name is
written here. No root is needed: packages are downloaded and unpacked, never installed on the host.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from .cache import Cache
from .errors import LabError
from .report import call, find_program, progress

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SUITES = ("trixie", "trixie-backports")
INDEX_AGE_S = (
    3 * 24 * 3600
)  # a package list older than this is fetched anew before anything is downloaded
_DEBIAN_SUITE = re.compile(
    r"^(bullseye|bookworm|trixie|forky|duke|sid|stable|oldstable|testing|unstable)(-updates|-backports)?/?$"
)


@dataclass
class Source:
    """One source of the host's apt: a URI with a suite."""

    uri: str
    suite: str
    components: list[str]
    signed_by: str = ""


def parse_one_line(text: str) -> list[Source]:
    """Sources in the old style: `deb [options] URI suite component...`."""
    found = []
    for line in text.splitlines():
        match = re.match(r"^\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)((?:\s+[^#\s]\S*)*)", line)
        if match:
            options = dict(o.split("=", 1) for o in (match[1] or "").split() if "=" in o)
            found.append(Source(match[2], match[3], match[4].split(), options.get("signed-by", "")))
    return found


def parse_deb822(text: str) -> list[Source]:
    """Sources in the new style: stanzas with Types, URIs, Suites, Components."""
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        name = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t") and name:
                fields[name] += " " + line.strip()
            elif ":" in line:
                name, value = line.split(":", 1)
                name = name.strip().lower()
                fields[name] = value.strip()
        if fields.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "deb" not in fields.get("types", "").split():
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                found.append(
                    Source(
                        uri,
                        suite,
                        fields.get("components", "").split(),
                        fields.get("signed-by", ""),
                    )
                )
    return found


def read_sources(etc: Path = Path("/etc/apt")) -> list[Source]:
    """All sources of the host's apt, in the order in which apt reads them."""
    found: list[Source] = []
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    for path in files:
        try:
            text = path.read_text(errors="replace")
        except (FileNotFoundError, IsADirectoryError, PermissionError):
            continue
        if path.suffix == ".sources":
            found += parse_deb822(text)
        elif path.suffix == ".list":
            found += parse_one_line(text)
    return found


def _first_of_mirror_list(uri: str) -> str:
    """The first line of a local file of mirrors (mirror+file:/path), as cloud images have it."""
    path = Path(unquote(urlsplit(uri).path))
    try:
        for line in path.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                return line.split()[0]
    except OSError:
        pass
    return ""


def choose_mirror(sources: Iterable[Source]) -> str | None:
    """The URI of the Debian archive among the sources: not security, not another vendor's."""
    best, best_score = None, 0
    for source in sources:
        uri = source.uri
        if uri.startswith("mirror+file:"):
            uri = _first_of_mirror_list(uri)
        if not re.match(r"^(https?|file|ftp|copy):", uri):
            continue
        path = urlsplit(uri).path.rstrip("/")
        if (
            "security" in uri
            or not _DEBIAN_SUITE.match(source.suite)
            or "main" not in source.components
        ):
            continue
        # Another vendor may use Debian's suite names too; Debian's keyring and the usual last
        # folder tell them apart.
        score = 1
        if "debian-archive" in source.signed_by:
            score += 4
        elif source.signed_by:
            score -= 1
        if path.endswith("/debian"):
            score += 2
        if score > best_score:
            best, best_score = uri.rstrip("/"), score
    return best


def mirror() -> str:
    """The address of the Debian archive that this machine uses."""
    chosen = os.environ.get("APLOMB_LAB_MIRROR") or choose_mirror(read_sources())
    if not chosen:
        raise LabError(
            "no source of the Debian archive in /etc/apt/sources.list or /etc/apt/sources.list.d: "
            "add one, or set APLOMB_LAB_MIRROR to a mirror's address"
        )
    return chosen


def source_lines(kinds: Iterable[str] = ("deb",), suites: Iterable[str] = SUITES) -> str:
    """A source list of the lab's suites on the host's mirror."""
    address = mirror()
    return "".join(
        f"{kind} [signed-by={KEYRING}] {address} {suite} main\n"
        for suite in suites
        for kind in kinds
    )


def host_acquire_options() -> list[str]:
    """How the host's apt reaches its mirror (proxies, certificates, retries), as `Name=value`
    words.
    """
    found = []
    for line in call([find_program("apt-config", "apt"), "dump"]).splitlines():
        match = re.match(r'^(Acquire::[^ ]+) "(.*)";$', line)
        if (
            match
            and not match[1].startswith(
                ("Acquire::IndexTargets", "Acquire::Languages", "Acquire::Changelogs")
            )
            and match[2]
            and not match[1].endswith("::")
        ):
            found.append(f"{match[1]}={match[2]}")
    return found


@dataclass
class Apt:
    """The private apt: its folder lies in the cache, and one lock guards it."""

    cache: Cache
    quiet: bool = False
    _ready: bool = field(default=False, init=False)

    @property
    def folder(self) -> Path:
        return self.cache.root / "apt"

    def _environment(self) -> dict[str, str]:
        return {"APT_CONFIG": str(self.folder / "apt.conf")}

    def _write_configuration(self) -> None:
        if not KEYRING.exists():
            raise LabError(f"{KEYRING} is missing: apt-get install debian-archive-keyring")
        for name in ("lists/partial", "archives/partial", "state"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        # An empty status file: what the host has installed must not change what is chosen here.
        (self.folder / "status").write_text("")
        (self.folder / "sources.list").write_text(source_lines(("deb", "deb-src")))
        settings = {
            # The host's configuration files may carry hooks that run as part of apt; ours must run
            # none.
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::parts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
            "Dir::Etc::sourcelist": self.folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": self.folder / "state",
            "Dir::State::lists": self.folder / "lists",
            "Dir::State::status": self.folder / "status",
            "Dir::Cache": self.folder,
            "Dir::Cache::archives": self.folder / "archives",
            "Acquire::Languages": "none",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            # As root, apt would become a user that cannot write into this folder.
            "APT::Sandbox::User": "",
            "APT::Install-Recommends": "false",
        }
        lines = [f'{name} "{value}";' for name, value in settings.items()]
        lines += ['{} "{}";'.format(*option.split("=", 1)) for option in host_acquire_options()]
        (self.folder / "apt.conf").write_text("\n".join(lines) + "\n")

    def _update(self, force: bool = False) -> None:
        """Fetch the package lists if they are absent or old. The lock is held by the caller."""
        stamp = self.folder / "updated"
        sources = source_lines(("deb", "deb-src"))
        fresh = (
            stamp.exists()
            and stamp.read_text() == sources
            and time.time() - stamp.stat().st_mtime < INDEX_AGE_S
        )
        if not fresh or force:
            self._write_configuration()
            progress("fetching the package lists of " + ", ".join(SUITES) + "…", self.quiet)
            call(
                [
                    find_program("apt-get", "apt"),
                    "-q",
                    "-o",
                    "APT::Update::Error-Mode=any",
                    "update",
                ],
                env=self._environment(),
                what="apt-get update (private)",
            )
            stamp.write_text(sources)
        self._ready = True

    def names(self, prefix: str) -> list[str]:
        """All package names that start so."""
        with self.cache.lock("apt", self.quiet):
            self._update()
            listing = call(
                [find_program("apt-cache", "apt"), "pkgnames", prefix], env=self._environment()
            )
        return sorted(listing.split())

    def _fetch(self, argv: list[str], target: Path, what: str) -> None:
        target.mkdir(parents=True, exist_ok=True)
        with self.cache.lock("apt", self.quiet):
            self._update()
            words = [find_program("apt-get", "apt"), "-q", "-y", *argv]
            try:
                call(words, env=self._environment(), cwd=target, what=what)
            except LabError:
                # A mirror drops superseded packages, so lists of yesterday may name files that are
                # gone.
                self._update(force=True)
                call(words, env=self._environment(), cwd=target, what=what)

    def download(self, packages: list[str], target: Path) -> list[Path]:
        """Download exactly these packages."""
        self._fetch(["download", *packages], target, "downloading " + " ".join(packages))
        return sorted(target.glob("*.deb"))

    def download_with_dependencies(self, packages: list[str], target: Path) -> list[Path]:
        """Download these packages and all that they need, as if nothing were installed."""
        (target / "partial").mkdir(parents=True, exist_ok=True)
        self._fetch(
            [
                "-o",
                f"Dir::Cache::archives={target}",
                "--download-only",
                "--no-install-recommends",
                "install",
                *packages,
            ],
            target,
            "downloading " + " ".join(packages),
        )
        return sorted(target.glob("*.deb"))

    def download_source(self, package: str, target: Path) -> Path:
        """Download a source package; returns the authors' own archive."""
        self._fetch(
            ["source", "--download-only", package], target, f"downloading the source of {package}"
        )
        archives = sorted(target.glob("*.orig.tar.*"))
        archives = [path for path in archives if path.suffix != ".asc"]
        if not archives:
            raise LabError(f"the source package {package} has no *.orig.tar.* file")
        return archives[0]


def unpack(packages: Iterable[Path], target: Path) -> None:
    """Unpack binary packages over each other into a folder; nothing of them runs."""
    target.mkdir(parents=True, exist_ok=True)
    for package in packages:
        call(
            [find_program("dpkg-deb", "dpkg"), "-x", package, target],
            what=f"unpacking {package.name}",
        )
