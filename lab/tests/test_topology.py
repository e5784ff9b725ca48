"""CPUs and disks from text: what they mean for QEMU and the guest, and which wishes are refused."""

import unittest

from aplomb_lab import disks, topology
from aplomb_lab.errors import LabError


class TopologyTest(unittest.TestCase):
    def test_all_keys(self) -> None:
        found = topology.parse("sockets=2,cores=2,threads=2,nodes=2", 8)
        self.assertEqual(found, topology.Topology(2, 2, 2, 2))
        self.assertEqual(
            list(found.options(2048, 100)),
            ["-smp", "8,sockets=2,cores=2,threads=2"]
            + ["-object", "memory-backend-ram,id=node0,size=1124M"]
            + ["-numa", "node,nodeid=0,cpus=0-3,memdev=node0"]
            + ["-object", "memory-backend-ram,id=node1,size=1024M"]
            + ["-numa", "node,nodeid=1,cpus=4-7,memdev=node1"],
        )

    def test_memory_of_nodes_is_all_memory(self) -> None:
        words = list(topology.Topology(3, 1, 1, 3).options(1000, 0))
        sizes = [int(w.split("size=")[1].rstrip("M")) for w in words if "size=" in w]
        self.assertEqual(sum(sizes), 1000)

    def test_cores_left_out_fill_the_cpus(self) -> None:
        self.assertEqual(topology.parse("threads=2", 8), topology.Topology(1, 4, 2, 1))
        self.assertEqual(topology.parse("threads=2", None).cpus, 2)

    def test_usual_topology(self) -> None:
        self.assertEqual(topology.choose("smp", 2, None, None), topology.Topology(cores=2))
        self.assertEqual(topology.choose("timing-smp", 2, 4, None).cpus, 4)
        self.assertEqual(topology.choose("timing", 1, 1, None).cpus, 1)

    def test_refusals(self) -> None:
        for machine, cpus, text, why in (
            ("smp", 8, "sockets=2,cores=2", "are 4 CPUs, not the 8"),
            ("smp", 6, "sockets=4", "are 4 CPUs, not the 6"),
            ("smp", None, "sockets=3,nodes=2", "cannot be divided"),
            ("smp", None, "sockets=1,cores=4,nodes=2", "cannot be divided"),
            ("smp", None, "dies=2", "'dies=2' is not KEY=NUMBER"),
            ("smp", None, "cores=0", "'cores=0' is not"),
            ("smp", None, "cores=2,cores=2", "at most once"),
            ("smp", None, "cores", "'cores' is not"),
            ("smp", 0, None, "0 CPUs"),
            ("smp", 65, None, "1 to 64"),
            ("timing", 2, None, "timing has one CPU"),
            ("timing", None, "cores=2", "timing has one CPU"),
        ):
            with self.subTest(text or cpus), self.assertRaisesRegex(LabError, why):
                topology.choose(machine, 2, cpus, text)


class DisksTest(unittest.TestCase):
    @staticmethod
    def parse(text: str, virtual: bool = True) -> disks.Disk:
        return disks.parse("--disk", text, 0, virtual)

    def test_iops_alone_serve_one_after_the_other(self) -> None:
        disk = self.parse("1G,iops=400")
        self.assertEqual((disk.size_mb, disk.depth, disk.service_ns), (1024, 1, 2_500_000))

    def test_iops_are_kept_and_the_latency_is_rounded_up(self) -> None:
        disk = self.parse("512M,iops=200,rate=40M,latency=4ms")
        self.assertEqual((disk.depth, disk.service_ns), (1, 5_000_000))
        disk = self.parse("512M,iops=2000,latency=4ms")
        self.assertEqual((disk.depth, disk.service_ns), (8, 4_000_000))

    def test_rate_bounds_the_request(self) -> None:
        disk = self.parse("512M,iops=200,rate=40M")
        self.assertEqual((disk.max_sectors * 512, disk.mbps), (208896, 0))  # 51 pages; 40 MiB / 200
        disk = self.parse("512M,rate=40M")
        self.assertEqual((disk.max_sectors, disk.mbps), (0, 40))

    def test_data_are_in_memory_that_is_added(self) -> None:
        self.assertGreater(self.parse("512M").extra_mb, 512)
        self.assertEqual(self.parse("512M,via=qemu", virtual=False).extra_mb, 0)

    def test_names_and_order(self) -> None:
        found = disks.parse_all(["64M", "32M"], ["16M"], True)
        self.assertEqual([disk.name for disk in found], ["disk0", "disk1", "swap0"])
        self.assertEqual([disk.is_swap for disk in found], [False, False, True])

    def test_rotating_disk(self) -> None:
        disk = self.parse("512M,rpm=7200")
        self.assertEqual(disk.line(), "disk0 rotating 512 7200 8500 104857600 32 0")
        self.assertGreater(disk.extra_mb, 512)
        self.assertEqual(disk.status()["depth"], 32)
        disk = self.parse("1G,rpm=5400,seek=12.5ms,rate=60M,depth=1,ncq=2s")
        self.assertEqual(disk.line(), "disk0 rotating 1024 5400 12500 62914560 1 2000")

    def test_refusals_of_rotating_disks(self) -> None:
        for text, why in (
            ("rpm=7200,iops=100", "^--disk 64M,rpm=7200,iops=100: iops does not go with rpm"),
            ("iops=100,rpm=7200", "iops does not go with rpm"),
            ("rpm=7200,latency=4ms", "latency does not go with rpm"),
            ("rpm=7200,via=guest", "via does not go with rpm"),
            ("seek=8ms", "^--disk 64M,seek=8ms: seek is for a disk with rpm"),
            ("iops=100,depth=4", "depth is for a disk with rpm"),
            ("ncq=1s", "ncq is for a disk with rpm"),
            ("via=qemu,ncq=1s", "ncq is for a disk with rpm"),
            ("rpm=1000", "rpm=1000: from 3600 to 15000"),
            ("rpm=7200,seek=100us", "a mean seek of 0.1 ms"),
            ("rpm=7200,seek=8.5", "'seek=8.5' is none of"),
            ("rpm=7200,seek=8.0000001ms", "'seek=8.0000001ms' is none of"),
            ("rpm=7200,rate=1G", "from 1M to 300M"),
            ("rpm=7200,depth=1000", "depth=1000: at most 256"),
            ("rpm=7200,ncq=10us", "ncq=0.01ms"),
            ("rpm=72.5", "'rpm=72.5' is none of"),
        ):
            with self.subTest(text), self.assertRaisesRegex(LabError, why):
                self.parse("64M," + text, virtual=False)
        with self.assertRaisesRegex(LabError, "^--swap 64M,rpm=7200: rpm is for --disk only"):
            disks.parse("--swap", "64M,rpm=7200", 0, True)

    def test_refusals(self) -> None:
        for text, why in (
            ("5", "is no size"),
            ("8M", "16M to 8192M"),
            ("9G", "16M to 8192M"),
            ("64M,turns=2", "'turns=2' is none of"),
            ("64M,rate=0.3M", "'rate=0.3M' is none of"),
            ("64M,iops=0", "'iops=0' is none of"),
            ("64M,latency=4", "'latency=4' is none of"),
            ("64M,rate=40", "'rate=40' is none of"),
            ("64M,iops=5,iops=6", "given twice"),
            ("64M,iops=3000", "keeps 2000"),
            ("64M,iops=30000,latency=1ms", "20000 with a latency"),
            ("64M,iops=100,rate=100M", "1048576 bytes a request"),
            ("64M,iops=2000,rate=1M", "524 bytes a request"),
            ("64M,rate=100K", "at least 1M"),
            ("64M,latency=11s", "at most 10 s"),
            ("64M,via=qemu", "take --machine smp"),
        ):
            with self.subTest(text), self.assertRaisesRegex(LabError, why):
                self.parse(text)
        with self.assertRaisesRegex(LabError, "no latency"):
            self.parse("64M,latency=4ms,via=qemu", virtual=False)


if __name__ == "__main__":
    unittest.main()
