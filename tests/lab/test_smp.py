"""Two CPUs: CPUs that come and go, affinity, storms, and starts and stops in a row (issue 2, section 6)."""
import os

from . import harness


class Smp(harness.JobTest):
    job = "smp"
    machine = "smp"
    may_end = "^unregistered from the main kernel$"  # what the kernel calls a CPU that came or went


class Cycles(harness.JobTest):
    """APLOMB_LAB_CYCLES: how many; each takes half a minute, nearly all of it the emulated verifier."""
    job = "cycles"
    machine = "smp"
    env = {"CYCLES": os.environ.get("APLOMB_LAB_CYCLES", "5")}
