"""Boots guests with CPUs in sockets, threads and NUMA nodes: Linux must see what was asked for."""

import os
import tempfile
import unittest

from aplomb_lab import run

LIMIT = float(os.environ.get("APLOMB_LAB_TEST_LIMIT", "180"))

LOOK = """
lscpu -p=CPU,CORE,SOCKET,NODE | grep -v '^#'
for node in /sys/devices/system/node/node[0-9]*; do
    echo "node ${node##*node} $(cat $node/cpulist) $(sed -n 's/.*MemTotal: *//p' $node/meminfo)"
done
"""


class CpusTest(unittest.TestCase):
    def look(self, machine: str, cpus: int | None, topology: str | None) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            result = run(
                ["sh", "-c", LOOK],
                out=folder,
                machine=machine,
                cpus=cpus,
                topology=topology,
                limit=LIMIT,
            )
            self.assertEqual((result.reason, result.exit_status), ("exited", 0), result.stdout)
            return result.stdout.splitlines()

    def test_sockets_threads_and_nodes(self) -> None:
        lines = self.look("timing-smp", 4, "sockets=2,threads=2,nodes=2")
        self.assertEqual(lines[:4], ["0,0,0,0", "1,0,0,0", "2,1,1,1", "3,1,1,1"])
        nodes = [line.split() for line in lines[4:]]
        self.assertEqual(
            [words[:3] for words in nodes], [["node", "0", "0-1"], ["node", "1", "2-3"]]
        )
        for words in nodes:  # half of 2,048 MB each, less what the kernel keeps
            self.assertTrue(900 * 1024 < int(words[3]) <= 1024 * 1024, words)

    def test_more_cpus_in_real_time(self) -> None:
        lines = self.look("smp", 3, None)
        self.assertEqual(lines[:3], ["0,0,0,0", "1,1,0,0", "2,2,0,0"])
        self.assertEqual(len(lines), 4)


if __name__ == "__main__":
    unittest.main()
