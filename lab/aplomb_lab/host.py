"""The host's side: which packages the lab needs there, and what state everything is in (`setup`,
`doctor`).
"""

from __future__ import annotations

import os
import shutil
import subprocess

from . import qemu
from .apt import KEYRING, mirror
from .cache import Cache, find_damage
from .errors import LabError
from .report import progress

# (program or file, package). All else comes with tools.py, unpacked and not installed.
NEEDED = [
    ("apt-get", "apt"),
    ("dpkg-deb", "dpkg"),
    ("setpriv", "util-linux"),
    ("mmdebstrap", "mmdebstrap"),
    ("newuidmap", "uidmap"),
    (str(KEYRING), "debian-archive-keyring"),
]


def missing_packages() -> list[str]:
    path = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
    return [
        package
        for item, package in NEEDED
        if not (os.path.exists(item) if item.startswith("/") else shutil.which(item, path=path))
    ]


def setup() -> None:
    """Install the missing host packages, as root or through sudo; else say the command."""
    missing = missing_packages()
    if not missing:
        progress("all host packages are here")
        return
    words = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    if os.geteuid() != 0:
        if (
            not shutil.which("sudo")
            or subprocess.run(["sudo", "-n", "true"], stderr=subprocess.DEVNULL).returncode
        ):
            raise LabError(
                f"not root, and sudo would ask for a password; run: sudo {' '.join(words)}"
            )
        words = ["sudo", "-n", *words]
    progress("installing " + " ".join(missing) + "…")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # The first try may fail only because a fresh machine has no package lists: then what it says is
    # not for people.
    if subprocess.run(
        words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ).returncode:
        update = [*words[: words.index("apt-get")], "apt-get", "-q", "update"]
        subprocess.run(update, stdout=subprocess.DEVNULL)
        if subprocess.run(words, env=environment, stdout=subprocess.DEVNULL).returncode:
            raise LabError(f"this failed: {' '.join(words)}")


def doctor(cache: Cache) -> bool:
    """Print what is here and what is missing; is the lab usable?"""
    good = True
    missing = missing_packages()
    if missing:
        good = False
        print(
            f"host packages  missing: {' '.join(missing)} "
            f"(lab/lab setup, or: apt-get install {' '.join(missing)})"
        )
    else:
        print("host packages  all here")
    try:
        print(f"mirror         {mirror()}")
    except LabError as error:
        good = False
        print(f"mirror         {error}")
    if not qemu.kvm_usable():
        print("accelerator    tcg (no usable /dev/kvm)")
    else:
        notes = list(cache.root.glob("kvm-*"))
        known = notes[0].read_text() if notes else "not tried yet: the first smp run does"
        print(
            "accelerator    timing: tcg always; smp: /dev/kvm is here, and a guest under it: "
            + known
        )
    print(f"cache          {cache.root}")
    for folder in cache.entries():
        if folder.name == "apt":
            continue
        size = sum(
            p.stat().st_blocks * 512
            for p in folder.rglob("*")
            if p.is_file() and not p.is_symlink()
        )
        damage = "unfinished" if folder.name.startswith("building-") else find_damage(folder)
        print(f"  {folder.name:48} {size / 1e6:7.0f} MB  {damage or 'whole'}")
    return good
