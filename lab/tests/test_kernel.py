"""Choosing Debian's kernel packages: two shapes, several versions of each."""

import unittest

from aplomb_lab.errors import LabError
from aplomb_lab.kernel import matches, pick_release

NAMES = """
linux-image-6.12.94+deb13-cloud-amd64 linux-image-6.12.107+deb13-cloud-amd64
linux-image-6.12.107+deb13-amd64
linux-image-6.12.107+deb13-cloud-amd64-dbg linux-image-6.12.107+deb13-cloud-amd64-unsigned
linux-image-6.16.3+deb13-cloud-amd64 linux-image-6.16.12+deb13-cloud-amd64
linux-image-6.1.9+deb13-amd64
linux-image-6.19.10+deb13-cloud-amd64 linux-binary-6.19.10+deb13-cloud-amd64
linux-image-7.3.4+deb13-cloud-amd64 linux-base-7.3.4+deb13-cloud-amd64
linux-modules-7.3.4+deb13-cloud-amd64
linux-binary-7.3.4+deb13-cloud-amd64 linux-binary-unsigned-7.3.4+deb13-cloud-amd64
linux-image-7.1~rc3-cloud-amd64-unsigned linux-image-cloud-amd64 linux-modules-cloud-amd64
linux-base
linux-headers-7.3.4+deb13-cloud-amd64
""".split()


class KernelTest(unittest.TestCase):
    def test_one_package(self) -> None:
        self.assertEqual(
            pick_release("6.16", NAMES),
            ("6.16.12+deb13-cloud-amd64", ["linux-image-6.16.12+deb13-cloud-amd64"]),
        )

    def test_newest_by_number_signed_and_cloud_first(self) -> None:
        self.assertEqual(
            pick_release("6.12", NAMES),
            ("6.12.107+deb13-cloud-amd64", ["linux-image-6.12.107+deb13-cloud-amd64"]),
        )

    def test_release_in_part_is_passed_over(self) -> None:
        with self.assertRaisesRegex(
            LabError, r"of 6\.19\.10\+deb13-cloud-amd64 the mirror has only some packages"
        ):
            pick_release("6.19", NAMES)

    def test_base_modules_binary(self) -> None:
        self.assertEqual(
            pick_release("7.3", NAMES)[1],
            [f"linux-{part}-7.3.4+deb13-cloud-amd64" for part in ("base", "modules", "binary")],
        )

    def test_unsigned_only(self) -> None:
        self.assertEqual(
            pick_release("7.1", NAMES)[1], ["linux-image-7.1~rc3-cloud-amd64-unsigned"]
        )

    def test_exact_names(self) -> None:
        for wanted in ("6.12.94", "6.12.94+deb13-cloud-amd64"):
            self.assertEqual(pick_release(wanted, NAMES)[0], "6.12.94+deb13-cloud-amd64")
        self.assertEqual(pick_release("6.12.107+deb13-amd64", NAMES)[0], "6.12.107+deb13-amd64")

    def test_a_version_is_no_mere_prefix(self) -> None:
        self.assertFalse(matches("6.1", "6.12.94+deb13-amd64"))
        self.assertEqual(pick_release("6.1", NAMES)[0], "6.1.9+deb13-amd64")

    def test_absent_version_is_told_with_what_there_is(self) -> None:
        with self.assertRaisesRegex(LabError, r"no kernel 5\.10 here: .*6\.12, 6\.16, 7\.1, 7\.3"):
            pick_release("5.10", NAMES)


if __name__ == "__main__":
    unittest.main()
