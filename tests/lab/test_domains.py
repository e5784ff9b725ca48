"""Domains on one CPU, in virtual time: what they promise, then what happens to them.

By hand: APLOMB_LAB_RANDOM: seconds of random changes; APLOMB_LAB_SEED: their seed;
APLOMB_LAB_PARTS: which parts of domain_faults.sh (random, moves, vanish, users, limit).
"""

import os

from . import harness

SEED = os.environ.get("APLOMB_LAB_SEED", "4711")


class Domains(harness.JobTest):
    """domains: shares, limits, policies, reservations; changes, moves, rights, 4,096 of them"""

    job = "domains domain_faults"
    seconds = 300
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
