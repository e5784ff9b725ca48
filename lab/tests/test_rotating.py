"""Boots a guest with rotating disks: their time is what guest/programs/spindle.h says.

Time is virtual, so the host's load does not matter. The first disk is an ordinary one: 7,200 turns
a minute, a mean seek of 8.5 ms, 100 MiB a second. The second is the same, and orders its requests.
"""

import json
import os
import tempfile
import unittest
from pathlib import Path

from aplomb_lab import RunResult, run

LIMIT = float(os.environ.get("APLOMB_LAB_TEST_LIMIT", "180")) * 3
TURN_MS = 60_000 / 7200
RATE = 100 << 20
LEAST_SEEK_MS, MEAN_SEEK_MS = 0.8, 8.5
WHOLE_STROKE_MS = LEAST_SEEK_MS + (MEAN_SEEK_MS - LEAST_SEEK_MS) * 15 / 8
REQUESTS = 4096

JOB = """
. /run/lab/lib.sh
measure() { # NAME DEVICE DEPTH ARGUMENT...
    local name=$1 device=/dev/$2 depth=$3
    shift 3
    fio --output-format=json --direct=1 --ioengine=libaio --group_reporting --iodepth=$depth \\
        --filename=$device --name=x "$@" > out/$name.json
}
folder=$(block_folder disk0)
cat $folder/queue/rotational > out/rotational
modprobe bfq
for scheduler in bfq mq-deadline none; do
    echo $scheduler > $folder/queue/scheduler && measure $scheduler disk0 4 --rw=randread \\
        --bs=4k --number_ios=40 && cat $folder/queue/scheduler
done > out/schedulers
number=$(cat $folder/dev)
cost="rbps=100000000 rseqiops=1000 rrandiops=80 wbps=100000000 wseqiops=1000 wrandiops=80"
echo "$number ctrl=user model=linear $cost" > /sys/fs/cgroup/io.cost.model
echo "$number enable=1 ctrl=user" > /sys/fs/cgroup/io.cost.qos
cat /sys/fs/cgroup/io.cost.qos > out/iocost
measure iocost disk0 4 --rw=randread --bs=4k --number_ios=40
echo "$number enable=0" > /sys/fs/cgroup/io.cost.qos

measure random disk0 1 --rw=randread --bs=4k --number_ios=400
measure near disk0 1 --rw=randread --bs=4k --number_ios=200 --size=16M
awk 'BEGIN {
    print "fio version 2 iolog\\n/dev/disk0 add\\n/dev/disk0 open"
    for (i = 0; i < 200; i++)
        print "/dev/disk0 read", (i % 2 * 65000 + int(rand() * 500)) * 4096, 4096
    print "/dev/disk0 close"
}' > far
fio --output-format=json --direct=1 --ioengine=libaio --name=x --read_iolog=far > out/far.json
measure sequential disk0 1 --rw=read --bs=1M --runtime=2 --time_based
measure written disk0 1 --rw=write --bs=4k --number_ios=200
measure one disk0 1 --rw=read --bs=64k --runtime=2 --time_based
measure two disk0 1 --rw=read --bs=64k --runtime=2 --time_based --numjobs=2 \\
    --size=64M --offset_increment=128M

measure fifo disk0 32 --rw=randread --bs=4k --number_ios=400
measure ordered disk1 32 --rw=randread --bs=4k --number_ios=400
measure kept disk1 32 --rw=randwrite --bs=4k --io_size=16M --verify=crc32c
echo $? > out/verified
"""


class RotatingTest(unittest.TestCase):
    out: Path
    result: RunResult

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.out = Path(folder.name)
        disks = ["256M,rpm=7200", "256M,rpm=7200,ncq=1s"]
        cls.result = run(["bash", "-c", JOB], out=cls.out, limit=LIMIT, disks=disks)

    def setUp(self) -> None:
        ended = (self.result.reason, self.result.exit_status)
        self.assertEqual(ended, ("exited", 0), self.result.stdout)

    def text(self, name: str) -> str:
        return (self.out / name).read_text()

    def job(self, name: str) -> dict[str, float]:
        """What fio says of one measurement: requests, bytes a second, latencies in ms."""
        job = json.loads(self.text(f"{name}.json"))["jobs"][0]
        done = max(job["read"], job["write"], key=lambda part: int(part["total_ios"]))
        return {
            "requests": done["total_ios"],
            "iops": done["iops"],
            "bytes": done["bw_bytes"],
            "mean_ms": done["lat_ns"]["mean"] / 1e6,
            "most_ms": done["lat_ns"]["max"] / 1e6,
        }

    def assert_near(self, value: float, expected: float, part: float = 0.1) -> None:
        self.assertTrue(abs(value - expected) <= part * expected, f"{value}: not {expected}")

    def test_it_is_a_rotating_disk(self) -> None:
        self.assertEqual(self.text("rotational"), "1\n")
        expected = {"name": "disk1", "rpm": 7200, "seek_us": 8500, "rate": RATE, "depth": 32}
        self.assertEqual(expected | self.result.status["disks"][1], self.result.status["disks"][1])

    def test_io_schedulers_take_it(self) -> None:
        for name in ("[bfq]", "[mq-deadline]", "[none]"):
            self.assertIn(name, self.text("schedulers"))
        self.assertIn("enable=1", self.text("iocost"))
        for name in ("bfq", "mq-deadline", "none", "iocost"):
            with self.subTest(name):
                self.assertEqual(self.job(name)["requests"], 40)

    def test_random_reads_take_a_seek_and_half_a_turn(self) -> None:
        self.assertEqual(self.job("random")["requests"], 400)
        self.assert_near(self.job("random")["mean_ms"], MEAN_SEEK_MS + TURN_MS / 2)

    def test_a_seek_takes_longer_the_farther_it_goes(self) -> None:
        # 16 of 256 MiB: a quarter of the root of the distance.
        near = LEAST_SEEK_MS + (MEAN_SEEK_MS - LEAST_SEEK_MS) / 4
        self.assert_near(self.job("near")["mean_ms"], near + TURN_MS / 2)
        self.assert_near(self.job("far")["mean_ms"], WHOLE_STROKE_MS + TURN_MS / 2)

    def test_a_sequential_reader_gets_the_media_rate(self) -> None:
        self.assertGreaterEqual(self.job("sequential")["bytes"], 0.9 * RATE)
        self.assertLessEqual(self.job("sequential")["bytes"], RATE)
        self.assertGreaterEqual(self.job("one")["bytes"], 0.9 * RATE)

    def test_two_sequential_readers_are_much_slower(self) -> None:
        self.assertLess(self.job("two")["bytes"], self.job("one")["bytes"] / 10)

    def test_each_write_that_follows_another_waits_a_turn(self) -> None:
        self.assert_near(self.job("written")["mean_ms"], TURN_MS, 0.03)

    def test_a_disk_that_orders_its_requests_is_faster(self) -> None:
        fifo, ordered = self.job("fifo"), self.job("ordered")
        self.assert_near(fifo["iops"], 1000 / (MEAN_SEEK_MS + TURN_MS / 2))
        self.assertGreater(ordered["iops"], 1.5 * fifo["iops"])
        # a second, and then those of the other 31 that are as old
        self.assertLess(ordered["most_ms"], 1000 + 31 * (WHOLE_STROKE_MS + TURN_MS))

    def test_data_are_kept(self) -> None:
        self.assertEqual(self.text("verified"), "0\n")
        self.assertEqual(self.job("kept")["requests"], REQUESTS)


if __name__ == "__main__":
    unittest.main()
