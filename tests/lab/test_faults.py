"""The daemon killed in a fork bomb, starts that must be refused, requests of users."""

from . import harness


class Faults(harness.JobTest):
    """the daemon killed, started twice, refused; requests of unprivileged users"""

    job = "faults"
    seconds = 210
