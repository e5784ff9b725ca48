"""Out of memory: which process dies, and the scores by which the kernel chooses."""

from . import harness


class OutOfMemory(harness.JobTest):
    """best-effort work dies first when memory runs out, and a user beyond the cap before others"""

    job = "oom"
    seconds = 120
    memory = 768
    full = True  # `make test` has Memory
