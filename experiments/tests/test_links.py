"""Programs that send over a slow link: the steps, and what is made of their samples."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

from experiments.framework import experiment, links
from experiments.framework.schedulers import all_schedulers

NAMES = (
    "qlinux/net-shares",
    "qlinux/net-packet-size",
    "qlinux/net-streaming",
    "qlinux/cpu-and-net",
    "net/uplink",
    "net/latency",
)


def arrived(packets: int, size: int = 1000, lost: int = 0, most_us: int = 2000) -> dict[str, Any]:
    sums = {"sum_us": 1000 * packets, "most_us": most_us, "gap_us": 0}
    return {"packets": packets, "bytes": size * packets, "lost": lost, **sums}


class Steps(unittest.TestCase):
    def test_each_sends_the_same_under_all(self) -> None:
        known = all_schedulers()
        for name in NAMES:
            each = experiment.load_lab(name)
            for quick in (True, False):
                ours, stock = each.steps(known["aplomb"], quick), each.steps(known["eevdf"], quick)
                self.assertTrue(ours and stock, name)
                for step in (*ours, *stock):
                    self.assertEqual((step.words[0], len(step.words)), ("link", 11), name)
                names = [step.name for step in (*ours, *stock)]
                self.assertEqual(len(set(names)), len(names), name)

    def test_a_film_has_the_same_disk_and_loads_under_all(self) -> None:
        each, known = experiment.load_lab("qlinux/disk-and-net"), all_schedulers()
        for quick in (True, False):
            steps = [s for name in ("eevdf", "aplomb") for s in each.steps(known[name], quick)]
            self.assertEqual(len({step.name for step in steps}), len(steps))
            for step in steps:
                loads = int(step.name.rpartition("-")[2])
                self.assertEqual(list(step.words[:2]), ["on_raw_disk", "disk1"])
                self.assertEqual("beside_readers" in step.words, loads > 0)
                words = step.words[step.words.index("link") :]
                self.assertEqual((len(words), words[8]), (11, str(loads)))

    def test_words(self) -> None:
        link = links.Link("a", None, (200, 20), None, 4, modem_kbit=1000, buffer=9)
        wanted = "link 1000 9 fifo - 100:100 5 200/20 4 bulk program"
        self.assertEqual(link.words(links.FIFO, 5), wanted.split())

    def test_a_domain_is_as_deep_as_is_said(self) -> None:
        each = experiment.load_lab("qlinux/net-shares")
        found = {
            step.name: step.words[-1] for step in each.steps(all_schedulers()["aplomb"], False)
        }
        self.assertEqual(found["400-100-aplomb"], "program")
        for depth in (4, 16):
            self.assertEqual(len(found[f"depth-{depth}-aplomb"].split("/")), depth)

    def test_what_arrived_is_read(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "bulk").write_text("1250000 10\n")
            (folder / "program").write_text('{"packets": 3}\n')
            found = links.read(folder)
        self.assertEqual(found, {"bytes": 1250000, "seconds": 10, "program": {"packets": 3}})
        self.assertEqual(links.mbit(found["bytes"], found), 1.0)


class Cost(unittest.TestCase):
    """net/cost"""

    def test_steps(self) -> None:
        each, known = experiment.load_lab("net/cost"), all_schedulers()
        for quick in (True, False):
            for scheduler in ("eevdf", "aplomb"):
                for step in each.steps(known[scheduler], quick):
                    self.assertEqual((step.words[0], len(step.words)), ("sends", 5))
        deepest = each.steps(known["aplomb"], False)[-1]
        self.assertEqual(len(deepest.words[-1].split("/")), 16)

    def test_packets_are_compared(self) -> None:
        each = experiment.load_lab("net/cost")
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "sent").write_text("500000 2000000\n")
            self.assertEqual(each.read(Path(name)), {"packets": 500000, "us": 2000000})

        def judged(ours: int, deep: int) -> list[bool | None]:
            samples = {
                "aplomb": {
                    "depth-1": {"packets": ours, "us": 10**6},
                    "depth-16": {"packets": deep, "us": 10**6},
                },
                "eevdf": {kind: {"packets": 1000, "us": 10**6} for kind in ("htb", "hfsc", "fq")},
            }
            self.assertEqual(len(each.table(samples)[1]), 5)
            return [mark.ok for mark in each.judge(samples)]

        self.assertEqual(judged(950, 903), [True] * 4)
        self.assertEqual(judged(949, 900), [False, False, True, False])
        self.assertEqual(judged(899, 900), [False, False, False, True])


class Judging(unittest.TestCase):
    def judged(self, name: str, step: str, sample: dict[str, Any]) -> list[bool | None]:
        each = experiment.load_lab(name)
        samples = {"aplomb": {step: sample}, "eevdf": {}}
        self.assertEqual(len(each.table(samples)[1]), 1)
        return [mark.ok for mark in each.judge(samples)]

    def test_shares_are_of_the_bytes_on_the_link(self) -> None:
        # 106 bytes each on the link, and 1,514
        sample = {"program": arrived(1514, 64), "load": arrived(106, 1472)}
        self.assertEqual(links.part(sample), 50)

    def test_a_share_must_be_within_a_point(self) -> None:
        for first, ok in ((9590, True), (9720, False)):
            sample = {"program": arrived(first), "load": arrived(11990 - first), "seconds": 10}
            judged = self.judged("qlinux/net-shares", "400-100-aplomb", sample)
            self.assertEqual(judged, [ok, True])

    def test_small_packets_have_half(self) -> None:
        for small, ok in ((1514, True), (1600, False)):
            sample = {"program": arrived(100 * small, 64), "load": arrived(10600, 1472)}
            judged = self.judged("qlinux/net-packet-size", "none-aplomb", sample | {"seconds": 10})
            self.assertEqual(judged, [ok, True])

    def test_a_stream_must_lose_nothing(self) -> None:
        for stream, marks in (
            (arrived(1850, most_us=10800), [True, True]),
            (arrived(1849, lost=1, most_us=10900), [False, False]),
        ):
            sample = {"program": stream, "load": arrived(100), "seconds": 10}
            self.assertEqual(self.judged("qlinux/net-streaming", "32-aplomb", sample), marks)

    def test_a_web_server_keeps_the_rate_that_it_has_alone(self) -> None:
        each = experiment.load_lab("qlinux/cpu-and-net")

        def server(count: int) -> dict[str, Any]:
            waits = {"answers": 800, "median_us": 9000, "p95_us": 20_000, "most_us": 90_000}
            return {"program": {"bytes": count} | waits, "bytes": count, "seconds": 20}

        for loaded, ok in ((7_600_000, True), (7_500_000, False)):
            samples = {
                "aplomb": {"0-aplomb": server(8_000_000), "32-aplomb": server(loaded)},
                "eevdf": {"one-32-fifo": server(10_000)},
            }
            self.assertEqual([mark.ok for mark in each.judge(samples)], [ok])
            self.assertEqual(len(each.table(samples)[1]), 3)
        self.assertEqual(each.judge({"aplomb": {"32-aplomb": server(1)}}), [])

    def test_a_film_arrives_whole_and_in_time(self) -> None:
        disk = {"read": 4000, "read_s": 20.0, "seconds": 20, "load": arrived(100)}
        for film, marks in (
            (arrived(2560, 1472, most_us=1_000_000), [True] * 3),
            (arrived(2500, 1472, lost=1, most_us=1_001_000), [False] * 3),
        ):
            sample = {"program": film} | disk
            name = "mq-deadline-aplomb-fifo-16"
            self.assertEqual(self.judged("qlinux/disk-and-net", name, sample), marks)

    def test_a_call_and_its_uploads(self) -> None:
        for call, count, marks in (
            (arrived(1000, 200), 2_400_000, [True] * 4),
            (arrived(998, 200, lost=2, most_us=51_000), 2_370_000, [False] * 4),
        ):
            sample = {"program": call, "bytes": count, "seconds": 20}
            self.assertEqual(self.judged("net/uplink", "held-aplomb", sample), marks)

    def test_a_thin_flow_waits_no_longer_than_with_cake(self) -> None:
        each = experiment.load_lab("net/latency")
        for ours, cakes, marks in (
            (2000, 2000, [True, True]),
            (2200, 2000, [True, False]),
            (2000, None, [None, None]),
        ):
            sample = {"program": arrived(500, most_us=ours), "bytes": 100, "seconds": 10}
            cake = {"program": arrived(500, most_us=cakes or 0), "bytes": 100, "seconds": 10}
            samples = {
                "aplomb": {"uploads-together-aplomb": sample},
                "eevdf": {"uploads-cake": cake} if cakes else {},
            }
            self.assertEqual([mark.ok for mark in each.judge(samples)], marks)
            self.assertEqual(len(each.table(samples)[1]), 2 if cakes else 1)


if __name__ == "__main__":
    unittest.main()
