"""Memory: zram, zswap, huge pages, and no swap at all."""

from . import harness


class MemorySwap(harness.JobTest):
    """a working set stays with zram, zswap, reserved huge pages and without swap"""

    job = "memory_swap"
    seconds = 150
    memory = 768
    swaps = ("1G,iops=400",)
    full = True  # `make test` has Memory
