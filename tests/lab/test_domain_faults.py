"""Domains: random changes, moves, cgroups that vanish, users without the right, all places taken.

By hand: APLOMB_LAB_RANDOM: seconds of random changes; APLOMB_LAB_SEED: their seed;
APLOMB_LAB_PARTS: which parts (random, moves, vanish, users, limit).
"""

import os

from . import harness

SEED = os.environ.get("APLOMB_LAB_SEED", "4711")


class DomainFaults(harness.JobTest):
    """domains: random changes, moves, vanishing, users' rights, the limit of 4,096"""

    job = "domain_faults"
    seconds = 190
    env = {
        "RANDOM_S": os.environ.get("APLOMB_LAB_RANDOM", "6"),
        "SEED": SEED,
        "PARTS": os.environ.get("APLOMB_LAB_PARTS", ""),
    }


class RandomDomains(harness.JobTest):
    """domains: three minutes of random changes"""

    job = "domain_faults"
    seconds = 300
    full = True
    env = {"RANDOM_S": "180", "SEED": SEED, "PARTS": "random"}
