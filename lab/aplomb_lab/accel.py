"""KVM or TCG: asks the machine once per boot whether guests really boot under its KVM.

A /dev/kvm that opens proves little: some hosts run only guests that they know. So the first run of
an smp machine boots a trivial guest under KVM with a short limit, and the answer is kept until the
host reboots.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from . import qemu
from .cache import Cache
from .errors import LabError
from .report import progress

PROBE_S = 30.0  # under KVM a guest is up in a few seconds


def choose(machine: str, cache: Cache, quiet: bool = False) -> str:
    """The accelerator for a machine type. APLOMB_LAB_ACCEL overrides the choice for smp."""
    if qemu.in_virtual_time(machine):
        return "tcg"
    forced = os.environ.get("APLOMB_LAB_ACCEL")
    if forced:
        if forced not in ("kvm", "tcg"):
            raise LabError(f"APLOMB_LAB_ACCEL is {forced}: it must be kvm or tcg")
        return forced
    return "kvm" if kvm_boots(cache, quiet) else "tcg"


def kvm_boots(cache: Cache, quiet: bool = False) -> bool:
    """Does a guest boot under this machine's KVM?"""
    if not qemu.kvm_usable():
        return False
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    note = cache.root / f"kvm-{boot}"
    with cache.lock("kvm", quiet):
        if note.exists():
            return note.read_text() == "boots"
        progress("trying whether a guest boots under KVM…", quiet)
        from .machine import run  # machine.run asks this module which accelerator to use

        with tempfile.TemporaryDirectory(prefix="aplomb-lab-kvm-") as folder:
            try:
                good = (
                    run(
                        ["true"],
                        out=folder,
                        machine="smp",
                        limit=PROBE_S,
                        quiet=True,
                        accel="kvm",
                        cache=cache,
                    ).exit_code
                    == 0
                )
            except LabError:
                good = False
        for old in cache.root.glob("kvm-*"):
            old.unlink()
        note.write_text("boots" if good else "does not boot")
        progress("it does" if good else "it does not: using TCG", quiet)
        return good
