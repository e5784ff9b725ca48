"""The cache: entries are whole or rebuilt, whatever happened to them, and are built once."""

import os
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from pathlib import Path

from aplomb_lab import cache as cache_module
from aplomb_lab.cache import Cache, find_damage, recipe_hash
from aplomb_lab.errors import LabError

LAB = Path(__file__).resolve().parent.parent


class CacheTest(unittest.TestCase):
    def setUp(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.root = Path(self._folder.name)
        self.builds = 0
        os.environ["APLOMB_LAB_QUIET"] = "1"
        self.addCleanup(os.environ.pop, "APLOMB_LAB_QUIET")

    def build(self, work: Path) -> None:
        self.builds += 1
        (work / "data").write_bytes(b"x" * 1000)
        (work / "sub").mkdir()
        (work / "sub" / "link").symlink_to("../data")

    def get(self) -> Path:
        """A fresh Cache each time, as each process has one."""
        return Cache(self.root).get("thing-1", self.build, "thing")

    def test_is_built_once(self) -> None:
        first, second = self.get(), self.get()
        self.assertEqual(first, second)
        self.assertEqual(self.builds, 1)
        self.assertIsNone(find_damage(first))

    def test_failed_build_leaves_no_entry(self) -> None:
        def fail(work: Path) -> None:
            (work / "half").write_text("half")
            (work / "build.log").write_text("why")
            raise LabError("no")

        with self.assertRaises(LabError):
            Cache(self.root).get("thing-1", fail, "thing")
        self.assertFalse((self.root / "thing-1").exists())
        # The log is kept for reading, the rest is not.
        self.assertEqual(
            [p.name for p in (self.root / "building-thing-1").iterdir()], ["build.log"]
        )
        self.get()
        self.assertEqual(self.builds, 1)
        self.assertFalse((self.root / "building-thing-1").exists())

    def test_killed_build_is_taken_for_nothing(self) -> None:
        (self.root / "building-thing-1" / "sub").mkdir(parents=True)
        (self.root / "building-thing-1" / "data").write_text("half")
        self.assertEqual((self.get() / "data").stat().st_size, 1000)

    def test_missing_manifest(self) -> None:
        (self.get() / "manifest.json").unlink()
        self.get()
        self.assertEqual(self.builds, 2)

    def test_broken_manifest(self) -> None:
        (self.get() / "manifest.json").write_text("{")
        self.get()
        self.assertEqual(self.builds, 2)

    def test_truncated_file(self) -> None:
        (self.get() / "data").write_bytes(b"x" * 10)
        self.get()
        self.assertEqual(self.builds, 2)

    def test_missing_file(self) -> None:
        (self.get() / "data").unlink()
        self.get()
        self.assertEqual(self.builds, 2)

    def test_changed_link(self) -> None:
        link = self.get() / "sub" / "link"
        link.unlink()
        link.symlink_to("elsewhere")
        self.get()
        self.assertEqual(self.builds, 2)

    def test_changed_bytes_with_the_old_time_stamp(self) -> None:
        data = self.get() / "data"
        before = data.stat()
        data.write_bytes(b"y" * 1000)
        os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.get()
        self.assertEqual(self.builds, 2)

    def test_large_file(self) -> None:
        """Of a large file the edges are compared, and all of it when its time stamp changed."""
        old, cache_module.SMALL = cache_module.SMALL, 100
        self.addCleanup(setattr, cache_module, "SMALL", old)
        data = self.get() / "data"
        os.utime(data)  # touched, not changed: it is hashed, and is whole
        self.get()
        self.assertEqual(self.builds, 1)
        before = data.stat()
        data.write_bytes(b"x" * 999 + b"y")
        os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.get()
        self.assertEqual(self.builds, 2)

    def test_recipe_names_the_entry(self) -> None:
        self.assertEqual(recipe_hash("a", "b"), recipe_hash("a", b"b"))
        self.assertNotEqual(recipe_hash("ab", "c"), recipe_hash("a", "bc"))
        self.get()
        Cache(self.root).get("thing-2", self.build, "thing")
        self.assertEqual(self.builds, 2)

    def test_two_threads_build_once(self) -> None:
        def slow(work: Path) -> None:
            time.sleep(0.3)
            self.build(work)

        threads = [
            threading.Thread(target=lambda: Cache(self.root).get("thing-1", slow, "thing"))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.builds, 1)

    def test_two_processes_build_once(self) -> None:
        program = textwrap.dedent("""
            import sys, time
            from pathlib import Path
            sys.path.insert(0, sys.argv[1])
            from aplomb_lab.cache import Cache
            def build(work):
                with open(sys.argv[2] + "/count", "a") as f: f.write("built\\n")
                time.sleep(0.5)
                (work / "data").write_text("x")
            Cache(Path(sys.argv[2])).get("thing-1", build, "thing")
        """)
        runs = [
            subprocess.Popen([sys.executable, "-c", program, str(LAB), str(self.root)])
            for _ in range(3)
        ]
        self.assertEqual([run.wait() for run in runs], [0, 0, 0])
        self.assertEqual((self.root / "count").read_text(), "built\n")

    def test_lock_of_a_killed_builder_is_free(self) -> None:
        program = (
            "import sys, time; sys.path.insert(0, sys.argv[1])\n"
            "from pathlib import Path\nfrom aplomb_lab.cache import Cache\n"
            "def build(work):\n  print('in', flush=True); time.sleep(60)\n"
            "Cache(Path(sys.argv[2])).get('thing-1', build, 'thing')\n"
        )
        run = subprocess.Popen(
            [sys.executable, "-c", program, str(LAB), str(self.root)], stdout=subprocess.PIPE
        )
        assert run.stdout is not None
        run.stdout.readline()
        run.kill()
        run.wait()
        run.stdout.close()
        self.get()
        self.assertEqual(self.builds, 1)

    def test_unwritable_place_is_told(self) -> None:
        (self.root / "file").write_text("")
        with self.assertRaisesRegex(LabError, "APLOMB_LAB_CACHE"):
            Cache(self.root / "file" / "below").get("thing-1", self.build, "thing")


if __name__ == "__main__":
    unittest.main()
