"""Two CPUs: CPUs that come and go, affinity, storms, and starts and stops in a row (issue 2, section 6); domains that change
at random (issue 4, section 4): APLOMB_LAB_RANDOM seconds (default 10), APLOMB_LAB_SEED as in test_domain_faults (the same
changes; on two CPUs they meet the tasks at other moments)."""

import os

from . import harness


class Smp(harness.JobTest):
    job = "smp"
    machine = "smp"
    env = {
        "RANDOM_S": os.environ.get("APLOMB_LAB_RANDOM", "10"),
        "SEED": os.environ.get("APLOMB_LAB_SEED", "4711"),
    }
    may_end = "^unregistered from the main kernel$"  # what the kernel calls a CPU that came or went


class Cycles(harness.JobTest):
    """APLOMB_LAB_CYCLES: how many; each takes half a minute, nearly all of it the emulated verifier."""

    job = "cycles"
    machine = "smp"
    env = {"CYCLES": os.environ.get("APLOMB_LAB_CYCLES", "5")}
