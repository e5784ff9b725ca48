"""More interactive tasks and more specs than the tables have places."""

from . import harness


class Limits(harness.JobTest):
    """4,096 interactive processes and 8,193 matcher rows"""

    job = "limits"
    seconds = 170
    memory = 3072


class LimitsOfMemory(Limits):
    """the same, each process with a memory domain of its own"""

    seconds = 300
    full = True
    env = {"MEMORY": "1"}
