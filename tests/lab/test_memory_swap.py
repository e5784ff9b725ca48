"""Memory: kinds of swap, huge pages, machines of other sizes."""

from . import harness


class MemorySwap(harness.JobTest):
    """a working set stays with zram, zswap, reserved huge pages and without swap"""

    job = "memory_swap"
    seconds = 150
    memory = 768
    swaps = ("1G,iops=400",)
    full = True  # `make test` has Memory


class MemoryOf512(harness.JobTest):
    """a working set stays on a machine of 512 MB"""

    job = "memory_sizes"
    seconds = 60
    memory = 512
    swaps = ("1G,iops=400",)
    full = True  # `make test` has Memory, with 768 MB


class MemoryOf2048(harness.JobTest):
    """the same on one of 2 GB"""

    job = "memory_sizes"
    seconds = 90
    memory = 2048
    swaps = ("1G,iops=400",)
    full = True
