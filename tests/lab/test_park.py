"""What depends on the kernel's version, and the park, on two CPUs in virtual time."""

from . import harness


class Park(harness.JobTest):
    """the kernel's numbers and functions; affinity, cpuset, freeze and kill of parked tasks"""

    job = "interface park"
    seconds = 110
    machine = "timing-smp"
    env = {"EXPECT": "new", "LACKS": ""}
