"""scripts/check-includes finds what it is there to find, and says where."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(__file__).resolve().parents[2] / "scripts" / "check-includes"


def check(files: dict[str, str]) -> list[str]:
    """What check-includes says of a folder bpf/ with these files; nothing: all is well."""
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary) / "bpf"
        for name, text in files.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        run = subprocess.run(
            [sys.executable, PROGRAM, root], capture_output=True, text=True, check=False
        )
    lines = run.stdout.splitlines()
    assert run.returncode == bool(lines), run.stderr
    return lines


def including(*names: str) -> str:
    return "".join(f'#include "{name}"\n' for name in names)


class CheckIncludes(unittest.TestCase):
    def test_good(self) -> None:
        files = {
            "main.bpf.c": including("tree/a.bpf.h", "reserved/b.bpf.h"),
            "tree/a.bpf.h": including("state/s.bpf.h"),
            "reserved/b.bpf.h": including("state/s.bpf.h"),
            "state/s.bpf.h": including("intf.h", "policy/edf.h"),
            "intf.h": including("policy/types.h"),
            "policy/edf.h": including("types.h"),
            "policy/types.h": "typedef unsigned int u32;\n",
        }
        self.assertEqual(check(files), [])

    def test_neighbours(self) -> None:
        files = {"tree/a.bpf.h": "\n" + including("reserved/b.bpf.h"), "reserved/b.bpf.h": ""}
        (line,) = check(files)
        self.assertTrue(line.startswith("bpf/tree/a.bpf.h:2: tree/ includes reserved/b.bpf.h"))

    def test_circle(self) -> None:
        files = {
            "tree/a.bpf.h": including("tree/b.bpf.h"),
            "tree/b.bpf.h": including("tree/a.bpf.h"),
        }
        (line,) = check(files)
        self.assertIn("a circle: tree/a.bpf.h -> tree/b.bpf.h -> tree/a.bpf.h", line)

    def test_levels(self) -> None:
        chain = {f"tree/{n}.bpf.h": including(f"tree/{n + 1}.bpf.h") for n in range(1, 8)}
        files = {"main.bpf.c": including("tree/1.bpf.h"), **chain, "tree/8.bpf.h": ""}
        self.assertEqual(check(files), [])
        files |= {"tree/8.bpf.h": including("tree/9.bpf.h"), "tree/9.bpf.h": ""}
        (line,) = check(files)
        self.assertTrue(line.startswith("bpf/tree/8.bpf.h:1: 9 levels, at most 8: main.bpf.c ->"))

    def test_missing(self) -> None:
        (line,) = check({"tree/a.bpf.h": including("tree/none.bpf.h")})
        self.assertEqual(line, 'bpf/tree/a.bpf.h:1: "tree/none.bpf.h" is not a file in bpf/')

    def test_unknown_folder(self) -> None:
        (line,) = check({"tape/a.bpf.h": ""})
        self.assertTrue(line.startswith("bpf/tape/a.bpf.h:1: folder tape/ is not in the table"))

    def test_prototype(self) -> None:
        files = {
            "kernel/k.bpf.h": "extern int kernel_does(void) __ksym;\n",
            "tree/a.bpf.h": "/* a comment */\nint throttled_release(u32 cpu,\n\t\tu64 now);\n",
        }
        (line,) = check(files)
        self.assertTrue(line.startswith("bpf/tree/a.bpf.h:2: throttled_release() is declared"))

    def test_length(self) -> None:
        self.assertEqual(check({"tree/a.bpf.h": "\n" * 499}), [])
        (line,) = check({"tree/a.bpf.h": "\n" * 500})
        self.assertEqual(line, "bpf/tree/a.bpf.h:500: 500 lines, at most 499")


if __name__ == "__main__":
    unittest.main()
