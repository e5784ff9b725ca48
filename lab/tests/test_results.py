"""What goes into a guest and what comes out: initramfs, the job's words, results archive."""

import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from pathlib import Path

from aplomb_lab.errors import LabError
from aplomb_lab.initrd import Archive, job_script
from aplomb_lab.results import prepare_out, unpack_results


class FolderTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class InitrdTest(FolderTest):
    def test_words_come_through_as_they_are(self) -> None:
        words = ["printf", "<%s>", "a b", "it's", "$HOME `x`", "", "line\nbreak", "\udcff", "-n"]
        script = job_script(words, {"V": "it's; a=$b"}).replace(
            b"exec chrt -o 0 ", b"printf '%s|' \"$V\"; "
        )
        said = subprocess.run(["sh", "-c", script], capture_output=True).stdout
        self.assertEqual(
            said, b"it's; a=$b|" + b"".join(b"<" + os.fsencode(w) + b">" for w in words[2:])
        )

    @unittest.skipUnless(shutil.which("cpio"), "needs the program cpio to read the archive back")
    def test_cpio_reads_the_archive(self) -> None:
        tree = self.folder / "tree"
        (tree / "sub").mkdir(parents=True)
        (tree / "sub" / "tool").write_bytes(b"#!/bin/sh\n")
        (tree / "sub" / "tool").chmod(0o755)
        (tree / "link").symlink_to("sub/tool")
        with open(self.folder / "a.cpio", "wb") as target:
            archive = Archive(target)
            archive.tree(tree, "job/in")
            archive.file("job/deep/down/odd", b"12345")
            archive.close()
        back = self.folder / "back"
        back.mkdir()
        with open(self.folder / "a.cpio", "rb") as source:
            subprocess.run(["cpio", "-i", "--quiet", "-d"], stdin=source, cwd=back, check=True)
        self.assertEqual((back / "job/in/sub/tool").read_bytes(), b"#!/bin/sh\n")
        self.assertTrue(os.access(back / "job/in/sub/tool", os.X_OK))
        self.assertEqual(os.readlink(back / "job/in/link"), "sub/tool")
        self.assertEqual((back / "job/deep/down/odd").read_bytes(), b"12345")

    def test_a_device_is_refused(self) -> None:
        with self.assertRaisesRegex(LabError, "/dev/null"):
            Archive(io.BytesIO()).tree(Path("/dev/null"), "job/null")


class ResultsTest(FolderTest):
    def archive(self, *members: tuple[str, bytes, bytes | str]) -> Path:
        path = self.folder / "results"
        with tarfile.open(path, "w") as archive:
            for name, kind, content in members:
                member = tarfile.TarInfo(name)
                member.type = kind
                if kind == tarfile.SYMTYPE:
                    member.linkname = str(content)
                    archive.addfile(member)
                else:
                    assert isinstance(content, bytes)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
        return path

    def test_job_files_and_log(self) -> None:
        path = self.archive(
            ("dmesg", tarfile.REGTYPE, b"log"),
            ("out", tarfile.DIRTYPE, b""),
            ("out/a/b", tarfile.REGTYPE, b"x"),
        )
        out = self.folder / "out"
        prepare_out(out)
        self.assertEqual(unpack_results(path, out), (["dmesg", "a/b"], True))
        self.assertEqual((out / "a/b").read_bytes(), b"x")

    def test_nothing_leads_out(self) -> None:
        path = self.archive(
            ("out/../../evil", tarfile.REGTYPE, b"x"),
            ("/evil", tarfile.REGTYPE, b"x"),
            ("out/up", tarfile.SYMTYPE, ".."),
            ("out/up/evil", tarfile.REGTYPE, b"x"),
            ("out/pipe", tarfile.FIFOTYPE, b""),
        )
        out = self.folder / "out"
        prepare_out(out)
        unpack_results(path, out)
        self.assertFalse((self.folder / "evil").exists())
        self.assertFalse((out / "pipe").exists())

    def test_cut_archive_gives_what_there_is(self) -> None:
        path = self.archive(
            ("out/a", tarfile.REGTYPE, b"x" * 600), ("out/b", tarfile.REGTYPE, b"y" * 100_000)
        )
        os.truncate(path, 3000)
        out = self.folder / "out"
        prepare_out(out)
        names, whole = unpack_results(path, out)
        self.assertFalse(whole)
        self.assertEqual((out / "a").read_bytes(), b"x" * 600)
        self.assertIn("a", names)

    def test_old_results_go_and_other_files_stay(self) -> None:
        out = self.folder / "out"
        prepare_out(out)
        (out / "d").mkdir()
        (out / "d/old").write_text("")
        (out / "mine").write_text("")
        (out / "status.json").write_text('{"files": ["d", "d/old", "gone"]}')
        prepare_out(out)
        self.assertEqual([p.name for p in out.iterdir()], ["mine"])


if __name__ == "__main__":
    unittest.main()
