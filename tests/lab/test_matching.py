"""Which tasks become interactive, and by which spec."""

from . import harness


class Matching(harness.JobTest):
    """which tasks become interactive"""

    job = "matching"
    seconds = 60
