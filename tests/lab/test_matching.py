"""Which tasks become interactive, by which spec, and when they are admitted."""

from . import harness


class Matching(harness.JobTest):
    """which tasks become interactive; load, admission, revocation, reactivation"""

    job = "matching governor"
    seconds = 160


class Identity(harness.JobTest):
    """programs whose identity depends on what changes later: moves, links, mounts, names"""

    job = "identity"
    seconds = 120
