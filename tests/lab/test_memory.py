"""Memory: working sets of interactive programs, beside programs that want more than there is."""

from . import harness


class Memory(harness.JobTest):
    """working sets keep resident beside memory bombs; knobs and processes go back"""

    job = "memory"
    seconds = 150
    memory = 768
    swaps = ("1G,iops=400",)


class MemoryEnds(harness.JobTest):
    """the daemon killed while memory is short, and ended by the kernel: all goes back"""

    job = "memory_ends"
    full = True
    seconds = 200
    memory = 768
    may_end = "sysrq"
    swaps = ("1G,iops=400",)
