"""Domains that come and go by the thousand and at random, vanish, and are not everybody's to change (issue 4, section 4).

APLOMB_LAB_RANDOM: seconds of changes at random (default 6); APLOMB_LAB_SEED: which (default 4711);
APLOMB_LAB_PARTS: what of it (default: all, which is "random moves vanish users limit").
"""

import os

from . import harness


class DomainFaults(harness.JobTest):
    job = "domain_faults"
    env = {
        "RANDOM_S": os.environ.get("APLOMB_LAB_RANDOM", "6"),
        "SEED": os.environ.get("APLOMB_LAB_SEED", "4711"),
        "PARTS": os.environ.get("APLOMB_LAB_PARTS", ""),
    }
