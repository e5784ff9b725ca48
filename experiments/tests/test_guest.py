"""The read-back of the scheduler, dividing steps over guests, and what a failed guest says."""

from __future__ import annotations

import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

from experiments.framework import Experiment, Step, experiment, guest
from experiments.framework.errors import ExperimentError
from experiments.framework.guest import (
    Boot,
    PeerEnded,
    SchedulerMismatch,
    check_peer,
    check_read_back,
    divide,
    read_boot,
)
from experiments.framework.schedulers import Reservation, all_schedulers

SCHEDULERS = all_schedulers()
APLOMB, EEVDF, LAVD = SCHEDULERS["aplomb"], SCHEDULERS["eevdf"], SCHEDULERS["scx_lavd"]


class ReadBack(unittest.TestCase):
    def test_a_peer_that_the_kernel_ended_is_a_finding(self) -> None:
        log = (
            '[   47.5] sched_ext: BPF scheduler "bpfland_1.1.4" disabled (runnable task stall)\n'
            "[   47.6] sched_ext: bpfland_1.1.4: khugepaged[36] failed to run for 5.632s\n"
        )
        with self.assertRaisesRegex(PeerEnded, "runnable task stall, khugepaged.*5.632s"):
            check_peer(all_schedulers()["scx_bpfland"], "the kernel runs stock", log)
        check_peer(
            all_schedulers()["aplomb"], "the kernel runs stock", log
        )  # ours may not be ended
        left = log.replace("runnable task stall", "unregistered from user space")
        check_peer(all_schedulers()["scx_bpfland"], "the kernel runs stock", left)

    def test_the_right_one(self) -> None:
        check_read_back(APLOMB, "s", "enabled aplomb 1 0", "enabled aplomb 1 0")
        check_read_back(LAVD, "s", "enabled lavd_1.1.4_x86_64 3 0", "enabled lavd_1.1.4_x86_64 3 0")
        check_read_back(EEVDF, "s", "disabled stock 2 0", "disabled stock 2 0")

    def test_mismatches_raise(self) -> None:
        good = "enabled lavd_1.1.4 1 0"
        for before, after, why in (
            ("disabled stock 0 0", good, "before"),  # measured before it was attached
            (good, "disabled stock 1 0", "after"),  # ejected in the middle
            ("enabled bpfland_1.1.4 1 0", good, "bpfland"),  # another one
            ("enabling lavd_1.1.4 1 0", good, "enabling"),
            (good, "enabled lavd_1.1.4 2 0", "anew"),  # ejected and started again
            ("", good, "not known"),
        ):
            with (
                self.subTest(before=before, after=after),
                self.assertRaisesRegex(SchedulerMismatch, why),
            ):
                check_read_back(LAVD, "s", before, after)

    def test_stock_must_be_stock(self) -> None:
        with self.assertRaises(SchedulerMismatch):
            check_read_back(EEVDF, "s", "enabled aplomb 1 0", "enabled aplomb 1 0")


class Guests(unittest.TestCase):
    def test_steps_are_divided_in_order_and_evenly(self) -> None:
        steps = [Step(f"s{i}", ["alone"], 50) for i in range(10)]
        boots = divide(EEVDF, steps)
        self.assertEqual([step for boot in boots for step in boot.steps], steps)
        self.assertTrue(all(boot.seconds <= 240 for boot in boots))
        self.assertLessEqual(len(boots), 4)

    def test_one_long_step_is_one_guest(self) -> None:
        self.assertEqual(len(divide(EEVDF, [Step("long", ["alone"], 1000)])), 1)

    def test_failures_are_told(self) -> None:
        def unreachable(*_: object) -> NoReturn:
            raise AssertionError

        each = Experiment(
            "t",
            "f",
            "a",
            unreachable,
            lambda folder: {"value": float((folder / "stdout").read_text())},
            unreachable,
            unreachable,
            unreachable,
            name="redline/x",
        )
        boot = Boot(EEVDF, (Step("s", ["alone"], 1),))
        done = {"reason": "exited", "exit_status": 0}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with self.assertRaisesRegex(ExperimentError, "timeout"):
                read_boot(each, boot, folder, {"reason": "timeout", "exit_status": None})
            with self.assertRaisesRegex(ExperimentError, "cannot be read"):
                read_boot(each, boot, folder, done)
            (folder / "s").mkdir()
            for file in ("before", "after"):
                (folder / "s" / file).write_text("disabled stock 0 0\n")
            (folder / "s" / "stdout").write_text("no number")
            with self.assertRaisesRegex(ExperimentError, "cannot be read"):
                read_boot(each, boot, folder, done)
            (folder / "s" / "stdout").write_text("1.5")
            self.assertEqual(read_boot(each, boot, folder, done).samples, {"s": {"value": 1.5}})
            (folder / "failure").write_text("it broke\n")
            with self.assertRaisesRegex(ExperimentError, "it broke"):
                read_boot(each, boot, folder, done)


class Machine(unittest.TestCase):
    def test_a_guest_has_the_memory_and_the_devices_that_are_declared(self) -> None:
        given: dict[str, Any] = {}

        def run_lab(_: object, **options: Any) -> NoReturn:
            given.update(options)
            raise ExperimentError("no guest here")

        each = replace(
            experiment.load_lab("redline/idle"),
            memory_mb=512,
            disks=("64M,iops=100",),
            swaps=("128M,iops=100",),
        )
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(guest, "run_lab", run_lab),
            mock.patch.object(guest, "WORKLOADS", Path(name)),
            self.assertRaisesRegex(ExperimentError, "no guest here"),
        ):
            guest.run_boot(each, Boot(EEVDF, (Step("s", ["alone"], 1),)), Path(name))
        self.assertEqual(
            (given["memory"], given["disks"], given["swaps"]),
            (512, ("64M,iops=100",), ("128M,iops=100",)),
        )


class Due(unittest.TestCase):
    def test_how_a_program_gets_its_due(self) -> None:
        reservation = Reservation(5000, 30000)
        self.assertEqual(APLOMB.prefix(reservation), [])
        self.assertEqual(EEVDF.prefix(reservation), ["nice", "-n", "-20"])
        self.assertEqual(SCHEDULERS["eevdf-nice-0"].prefix(reservation), [])
        words = SCHEDULERS["deadline"].prefix(reservation)
        self.assertIn("5000000", words)
        self.assertIn("30000000", words)
        self.assertEqual(SCHEDULERS["deadline"].prefix(None), [])
        self.assertEqual(str(reservation), "5:30")


if __name__ == "__main__":
    unittest.main()
