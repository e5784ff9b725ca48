"""KVM or TCG: virtual time is always TCG; smp takes KVM where a guest boots under it."""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from aplomb_lab import accel, qemu
from aplomb_lab.cache import Cache
from aplomb_lab.errors import LabError
from aplomb_lab.kernel import Kernel
from aplomb_lab.tools import Tools
from aplomb_lab.topology import Topology


class AccelTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Cache(Path(folder.name))
        environment = mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        os.environ.pop("APLOMB_LAB_ACCEL", None)

    def test_virtual_time_is_tcg_whatever_the_host_has(self) -> None:
        os.environ["APLOMB_LAB_ACCEL"] = "kvm"
        with mock.patch.object(accel, "kvm_boots", return_value=True):
            for machine in ("timing", "timing-smp"):
                self.assertEqual(accel.choose(machine, self.cache), "tcg")

    def test_smp_takes_kvm_where_a_guest_boots(self) -> None:
        for boots, expected in ((True, "kvm"), (False, "tcg")):
            with mock.patch.object(accel, "kvm_boots", return_value=boots):
                self.assertEqual(accel.choose("smp", self.cache), expected)

    def test_smp_obeys_the_environment(self) -> None:
        os.environ["APLOMB_LAB_ACCEL"] = "tcg"
        with mock.patch.object(accel, "kvm_boots", return_value=True):
            self.assertEqual(accel.choose("smp", self.cache), "tcg")
        os.environ["APLOMB_LAB_ACCEL"] = "xen"
        with self.assertRaisesRegex(LabError, "kvm or tcg"):
            accel.choose("smp", self.cache)

    def test_kvm_is_refused_in_virtual_time(self) -> None:
        nowhere = Path("/nonexistent")
        kernel = Kernel("7.3", nowhere, nowhere, nowhere, [])
        setup = qemu.Setup("timing", "kvm", 512, kernel, nowhere, nowhere, Topology())
        with self.assertRaisesRegex(LabError, "KVM cannot"):
            qemu.command(mock.Mock(spec=Tools), setup, nowhere)


if __name__ == "__main__":
    unittest.main()
