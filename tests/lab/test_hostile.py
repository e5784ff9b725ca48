"""What one user without rights can do to the others."""

from . import harness


class Hostile(harness.JobTest):
    """a minute of one user's attacks, beside a film, a service and root"""

    job = "hostile"
    seconds = 360
    full = True
