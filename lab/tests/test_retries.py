"""Which ends of a guest are the emulator's fault, so that the lab tries again."""

from __future__ import annotations

import unittest

from aplomb_lab.machine import _Guest


class Retries(unittest.TestCase):
    def guest(self, emulator_fault: bool, lost_timer: bool) -> _Guest:
        guest = _Guest.__new__(_Guest)  # without an emulator
        guest.emulator_fault, guest.lost_timer = emulator_fault, lost_timer
        return guest

    def test_a_lost_timer_counts_only_before_the_job(self) -> None:
        guest = self.guest(emulator_fault=False, lost_timer=True)
        self.assertTrue(guest.is_emulators_fault("boot-failed"))
        for reason in ("exited", "died", "panic", "timeout"):
            self.assertFalse(guest.is_emulators_fault(reason), reason)

    def test_stale_kernel_text_counts_at_any_time(self) -> None:
        guest = self.guest(emulator_fault=True, lost_timer=False)
        self.assertTrue(guest.is_emulators_fault("panic"))

    def test_other_ends_are_not_the_emulators(self) -> None:
        self.assertFalse(self.guest(False, False).is_emulators_fault("boot-failed"))


if __name__ == "__main__":
    unittest.main()
