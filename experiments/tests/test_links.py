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
