"""The park: how fast changes of parked tasks take effect, on two CPUs in virtual time."""

from . import harness


class Park(harness.JobTest):
    """parked tasks: affinity, cpuset, freeze and kill take effect; parks by request"""

    job = "park"
    seconds = 90
    machine = "timing-smp"
