"""Boots guests with disks and swap devices: their latency and rates are what was asked for.

The bounds are what fio measured (lab/README.md) and a margin for other builds of the kernel; time
is virtual, so the host's load does not matter.
"""

import json
import os
import tempfile
import unittest
from pathlib import Path
from typing import Any

from aplomb_lab import RunResult, run

LIMIT = float(os.environ.get("APLOMB_LAB_TEST_LIMIT", "180")) * 2

FIO = """
measure() { # NAME DEVICE DEPTH RW BS
    fio --name=x --filename=/dev/$2 --direct=1 --ioengine=libaio --iodepth=$3 --rw=$4 --bs=$5 \\
        --time_based --runtime=4 --output-format=json > out/$1.json
}
measure one disk0 1 randread 4k
measure many disk0 16 randread 4k
measure whole disk0 1 write 204k
measure one-of-8 disk1 1 randwrite 4k
measure eight disk1 16 randread 4k
measure rate disk2 4 read 16k
"""

SWAP = """
free -m | sed -n 's/^Mem: *\\([0-9]*\\) .*/\\1/p' > out/memory
cat /proc/swaps > out/swaps
mkdir /sys/fs/cgroup/short
echo 32M > /sys/fs/cgroup/short/memory.max
before=$(sed -n 's/^pswpout //p' /proc/vmstat)
sh -c 'echo $$ > /sys/fs/cgroup/short/cgroup.procs; head -c 64M /dev/urandom > /tmp/data'
echo $(($(sed -n 's/^pswpout //p' /proc/vmstat) - before)) > out/swapped
mkfs.ext4 -q /dev/disk0 && mount /dev/disk0 /mnt
head -c 20M /dev/urandom > /mnt/file && sync && sum=$(sha256sum < /mnt/file)
umount /mnt && mount /dev/disk0 /mnt && [ "$sum" = "$(sha256sum < /mnt/file)" ] && echo kept
"""


class DisksTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name)

    def run_lab(self, job: str, **options: Any) -> RunResult:
        result = run(["sh", "-c", job], out=self.out, limit=LIMIT, **options)
        self.assertEqual((result.reason, result.exit_status), ("exited", 0), result.stdout)
        return result

    def job(self, name: str) -> dict[str, float]:
        """What fio says of one measurement: iops, bytes a second, mean and least latency in ms."""
        job = json.loads((self.out / f"{name}.json").read_text())["jobs"][0]
        done = max(job["read"], job["write"], key=lambda part: int(part["total_ios"]))
        latency = done["clat_ns"]
        return {
            "iops": done["iops"],
            "bytes": done["bw_bytes"],
            "mean_ms": latency["mean"] / 1e6,
            # From before the submission on: the device's time may begin in the middle of that.
            "least_ms": done["lat_ns"]["min"] / 1e6,
        }

    def assert_between(self, least: float, value: float, most: float) -> None:
        self.assertTrue(least <= value <= most, f"{value}: not from {least} to {most}")

    def test_time_is_what_was_asked_for(self) -> None:
        disks = ["64M,iops=200,rate=40M,latency=4ms", "64M,iops=2000,latency=4ms", "64M,rate=20M"]
        result = self.run_lab(FIO, disks=disks)
        self.assertEqual([disk["depth"] for disk in result.status["disks"]], [1, 8, 64])
        for name, least, most in (("one", 5.0, 5.1), ("one-of-8", 4.0, 4.1)):
            with self.subTest(name):
                self.assert_between(least, self.job(name)["mean_ms"], most)
                # fio's clock and the device's timer may differ by less than a microsecond
                self.assertGreaterEqual(self.job(name)["least_ms"], least - 0.001)
        for name, asked in (("one", 200), ("many", 200), ("eight", 2000)):
            with self.subTest(name):
                self.assert_between(asked * 0.98, self.job(name)["iops"], asked)
        # The guest copies 204 KiB in 0.5 ms before the request's 5 ms begin: a tenth of the rate.
        self.assert_between(0.88, self.job("whole")["bytes"] / (40 << 20), 1.0)
        # 20 ms have 409.6 KiB: 25 requests of 16 KiB and a rest that is lost.
        self.assert_between(0.96, self.job("rate")["bytes"] / (20 << 20), 1.0)

    def test_swap_is_on_and_disks_keep_what_is_written(self) -> None:
        result = self.run_lab(SWAP, memory=512, swaps=["128M,iops=2000"], disks=["64M"])
        self.assertEqual(result.stdout, "kept\n")
        self.assertIn("/dev/swap0", (self.out / "swaps").read_text())
        self.assertGreater(int((self.out / "swapped").read_text()), 8000)  # half of 64 MB, in pages
        # The data of the disks are in memory that the guest has beyond its own.
        self.assertGreater(int((self.out / "memory").read_text()), 512 + 128 + 64 - 150)


if __name__ == "__main__":
    unittest.main()
