"""Which tasks become interactive, by which spec, and when they are admitted."""

from . import harness


class Matching(harness.JobTest):
    """which tasks become interactive; load, admission, revocation, reactivation"""

    job = "matching governor"
    seconds = 160
