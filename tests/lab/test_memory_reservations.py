"""Memory by amount: private reserves of programs, reservations of domains."""

from . import harness


class MemoryReservations(harness.JobTest):
    """reserved memory stays beside memory bombs, whatever its age; amounts that do not fit are
    refused"""

    job = "memory_reservations"
    seconds = 100
    memory = 768
    swaps = ("1G,iops=400",)
    full = True  # `make test` has Memory
