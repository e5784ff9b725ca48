"""Several CPUs: those that come and go, affinity, storms, starts and stops in a row.

By hand: APLOMB_LAB_RANDOM, APLOMB_LAB_SEED as in test_domain_faults (the same changes; on two CPUs
they hit the tasks in other states); APLOMB_LAB_CYCLES: starts and stops.
"""

import os
from collections.abc import Mapping
from typing import ClassVar

from . import harness

SEED = os.environ.get("APLOMB_LAB_SEED", "4711")
# The reason that the kernel gives when it ends a scheduler because a CPU went or came back.
HOTPLUG = "^unregistered from the main kernel$"


class Smp(harness.JobTest):
    """two CPUs: hotplug, affinity, promises, storms, shares"""

    job = "smp"
    machine = "smp"
    seconds = 240
    env = {"RANDOM_S": os.environ.get("APLOMB_LAB_RANDOM", "10"), "SEED": SEED}
    may_end = HOTPLUG


class Masks(harness.JobTest):
    """four CPUs in virtual time: tasks that may run on some of them"""

    job = "masks"
    machine = "timing-smp"
    cpus = 4
    seconds = 180
    env: ClassVar[Mapping[str, str]] = {"LENGTH": "3000"}


class MasksOfEight(Masks):
    """the same on eight CPUs"""

    cpus = 8
    seconds = 360
    full = True


class Places(harness.JobTest):
    """two sockets of two cores of two threads: where a task wakes up while CPUs are idle"""

    job = "places"
    machine = "timing-smp"
    topology = "sockets=2,cores=2,threads=2"
    seconds = 150
    full = True  # the choice is the kernel's, as long as ops.select_cpu leaves it


class Capacity(harness.JobTest):
    """two cores of two threads in virtual time, of which one counts as slow"""

    job = "capacity"
    machine = "timing-smp"
    topology = "cores=2,threads=2"
    seconds = 150


class Caches(harness.JobTest):
    """two sockets, each with a cache, of two CPUs, in virtual time: where loops go on"""

    job = "caches"
    machine = "timing-smp"
    topology = "sockets=2,cores=2"
    seconds = 100


class CapacityOldest(Capacity):
    """the same on 6.16, whose verifier sees this code only where CPUs differ"""

    full = True
    seconds = 300
    kernel = "6.16"
    append = harness.STALLS_LATER


class CachesOldest(Caches):
    """the same on 6.16, whose verifier sees this code only where there are several caches"""

    full = True
    seconds = 300
    kernel = "6.16"
    append = harness.STALLS_LATER


class SmpRandom(harness.JobTest):
    """two CPUs, with two minutes of random changes"""

    job = "smp"
    machine = "smp"
    seconds = 400
    full = True
    env = {"RANDOM_S": "120", "SEED": SEED}
    may_end = HOTPLUG


class Cycles(harness.JobTest):
    """4 starts and stops under load, one of each way to stop"""

    full = True  # 540 s of CPU time, nearly all of it the emulated verifier
    job = "cycles"
    machine = "smp"
    seconds = 250
    env = {"CYCLES": os.environ.get("APLOMB_LAB_CYCLES", "4")}


class ManyCycles(harness.JobTest):
    """100 starts and stops under load, leaks looked for after 25 and 100"""

    job = "cycles"
    machine = "smp"
    seconds = 1800
    full = True
    env = {"CYCLES": "100"}
