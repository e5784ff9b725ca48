"""Finding the Debian mirror in the host's own source lists, in both styles. The host names here are
made up.
"""

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from aplomb_lab import apt
from aplomb_lab.errors import LabError


class MirrorTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.etc = Path(folder.name)
        (self.etc / "sources.list.d").mkdir()

    def put(self, name: str, text: str) -> None:
        (self.etc / name).write_text(text)

    def mirror(self) -> str | None:
        return apt.choose_mirror(apt.read_sources(self.etc))

    def test_one_line(self) -> None:
        self.put(
            "sources.list",
            "# deb http://old.invalid/debian bookworm main\n"
            "deb http://mirror.invalid/debian bookworm main contrib\n"
            "deb-src http://source.invalid/debian bookworm main\n"
            "deb http://mirror.invalid/debian-security bookworm-security main\n",
        )
        self.assertEqual(self.mirror(), "http://mirror.invalid/debian")

    def test_one_line_with_options_path_and_port(self) -> None:
        self.put(
            "sources.list",
            "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
            "https://mirror.invalid:8443/pool/os/debian/ trixie main # ours\n",
        )
        self.assertEqual(self.mirror(), "https://mirror.invalid:8443/pool/os/debian")

    def test_deb822(self) -> None:
        self.put(
            "sources.list.d/debian.sources",
            """\
Types: deb
# a comment
URIs: http://mirror.invalid:3142/mirror.other/debian
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://security.invalid/debian-security
Suites: trixie-security
Components: main
""",
        )
        self.assertEqual(self.mirror(), "http://mirror.invalid:3142/mirror.other/debian")

    def test_deb822_that_is_off_or_source_only(self) -> None:
        self.put(
            "sources.list.d/a.sources",
            "Enabled: no\nTypes: deb\nURIs: http://off.invalid/debian\n"
            "Suites: trixie\nComponents: main\n\n"
            "Types: deb-src\nURIs: http://src.invalid/debian\n"
            "Suites: trixie\nComponents: main\n",
        )
        self.assertIsNone(self.mirror())

    def test_other_vendors_come_second(self) -> None:
        """A vendor's list may come first, and may even use Debian's suite names and a component
        main.
        """
        self.put(
            "sources.list.d/a.list",
            "deb [signed-by=/usr/share/keyrings/vendor.gpg] "
            "https://vendor.invalid/linux/debian bookworm main\n"
            "deb https://apt.vendor.invalid/apt tool-bookworm main\n",
        )
        self.put(
            "sources.list.d/debian.sources",
            "Types: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm\n"
            "Components: main\nSigned-By:\n -----BEGIN PGP-----\n .\n abc\n",
        )
        self.put(
            "sources.list.d/z.list",
            "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
            "http://real.invalid/debian bookworm main\n",
        )
        self.assertEqual(self.mirror(), "http://real.invalid/debian")

    def test_mirror_list_file(self) -> None:
        """Debian's cloud images name a file of mirrors."""
        self.put("mirrors", "http://mirror.invalid/debian priority:1\n")
        self.put(
            "sources.list.d/debian.sources",
            f"Types: deb deb-src\nURIs: mirror+file://{self.etc}/mirrors\n"
            "Suites: bookworm\nComponents: main\n",
        )
        self.assertEqual(self.mirror(), "http://mirror.invalid/debian")

    def test_installation_medium_is_no_mirror(self) -> None:
        self.put("sources.list", "deb cdrom:[Debian 13]/ trixie main\n")
        self.assertIsNone(self.mirror())

    def test_none_is_told(self) -> None:
        with mock.patch.object(apt, "read_sources", return_value=[]), mock.patch.dict(os.environ):
            os.environ.pop("APLOMB_LAB_MIRROR", None)
            with self.assertRaisesRegex(LabError, "sources.list.*APLOMB_LAB_MIRROR"):
                apt.mirror()

    def test_own_choice(self) -> None:
        with mock.patch.dict(os.environ, {"APLOMB_LAB_MIRROR": "http://own.invalid/debian"}):
            self.assertIn(" http://own.invalid/debian trixie-backports main\n", apt.source_lines())


if __name__ == "__main__":
    unittest.main()
