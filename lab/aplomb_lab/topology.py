"""How many CPUs a guest has, and how they lie in sockets, cores, threads and NUMA nodes.

A node is one or more whole sockets: Linux warns of a socket that reaches over nodes, unless its CPU
says that it is built so. Memory is divided evenly; the first node also holds what the
disks' data need (disks.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .errors import LabError

# Emulated CPUs share the host's cores: each busy CPU of timing-smp costs about one wall second per
# guest second.
MOST_CPUS = 64
_KEYS = ("sockets", "cores", "threads", "nodes")


@dataclass(frozen=True)
class Topology:
    """sockets x cores (in each socket) x threads (in each core) CPUs; the sockets divided over the
    nodes.
    """

    sockets: int = 1
    cores: int = 1
    threads: int = 1
    nodes: int = 1

    @property
    def cpus(self) -> int:
        return self.sockets * self.cores * self.threads

    def cpus_of_node(self, node: int) -> range:
        """The CPUs of a node: QEMU numbers them by thread, core, socket."""
        each = self.cpus // self.nodes
        return range(node * each, (node + 1) * each)

    def options(self, memory_mb: int, first_node_mb: int) -> Iterator[str]:
        """QEMU's options. The first node has first_node_mb more than its share of memory_mb."""
        yield from (
            "-smp",
            f"{self.cpus},sockets={self.sockets},cores={self.cores},threads={self.threads}",
        )
        if self.nodes == 1:
            return
        for node in range(self.nodes):
            size = memory_mb // self.nodes
            if node == 0:
                size += memory_mb % self.nodes + first_node_mb
            cpus = self.cpus_of_node(node)
            yield from (
                "-object",
                f"memory-backend-ram,id=node{node},size={size}M",
                "-numa",
                f"node,nodeid={node},cpus={cpus.start}-{cpus.stop - 1},memdev=node{node}",
            )


def parse(text: str, cpus: int | None) -> Topology:
    """A topology from text as in `sockets=2,cores=2,threads=2,nodes=2`.

    What is left out is 1; but cores, left out, is what gives as many CPUs as asked for.
    """
    values: dict[str, int] = {}
    for item in text.split(","):
        key, equals, number = item.partition("=")
        if (
            not equals
            or key not in _KEYS
            or not number.isdecimal()
            or int(number) < 1
            or key in values
        ):
            raise LabError(
                f"--topology {text}: {item!r} is not KEY=NUMBER with each of {', '.join(_KEYS)} "
                "at most once, from 1"
            )
        values[key] = int(number)
    others = values.get("sockets", 1) * values.get("threads", 1)
    if "cores" not in values and cpus is not None and cpus % others == 0:
        values["cores"] = cpus // others
    found = Topology(**values)
    if cpus is not None and found.cpus != cpus:
        raise LabError(
            f"--topology {text}: {found.sockets} sockets x {found.cores} cores x "
            f"{found.threads} threads are {found.cpus} CPUs, not the {cpus} of --cpus"
        )
    if found.sockets % found.nodes:
        raise LabError(
            f"--topology {text}: {found.sockets} sockets cannot be divided over "
            f"{found.nodes} nodes (a node is one or more whole sockets)"
        )
    return found


def choose(machine: str, usual_cpus: int, cpus: int | None, topology: str | None) -> Topology:
    """The topology of a guest: as asked for, or the machine type's."""
    found = (
        parse(topology, cpus)
        if topology is not None
        else Topology(cores=usual_cpus if cpus is None else cpus)
    )
    if not 1 <= found.cpus <= MOST_CPUS:
        raise LabError(f"a guest of {found.cpus} CPUs: the lab takes 1 to {MOST_CPUS}")
    if machine == "timing" and found.cpus != 1:
        raise LabError(
            f"the machine type timing has one CPU, not {found.cpus}: take timing-smp or smp"
        )
    return found
