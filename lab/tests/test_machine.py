"""Boots guests: all machine types, kernels old and new, and every way in which a run can end.

Takes some three minutes, besides what must be built first. The time limits are generous, since
machines are shared.
"""

import json
import os
import re
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

from aplomb_lab import RunResult, run

LIMIT = float(os.environ.get("APLOMB_LAB_TEST_LIMIT", "180"))


class MachineTest(unittest.TestCase):
    boots_in_s: float

    @classmethod
    def setUpClass(cls) -> None:
        """How long a boot takes here now, for tests that must wait until a time limit is over."""
        with tempfile.TemporaryDirectory() as folder:
            cls.boots_in_s = run(["true"], out=folder, limit=LIMIT).status["wall_s"]

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def run_lab(self, *command: str, **options: Any) -> RunResult:
        return run(command, **{"out": self.folder / "out", "limit": LIMIT, **options})

    def assert_ended(self, result: RunResult, reason: str, status: int | None) -> None:
        console = (result.out / "console").read_text(errors="replace")[-2000:]
        self.assertEqual(
            (result.reason, result.exit_status),
            (reason, status),
            f"{result.status}\n{result.stdout[-1000:]}\n{console}",
        )

    def test_files_in_and_out_on_all_machines(self) -> None:
        source = self.folder / "input"
        (source / "sub").mkdir(parents=True)
        (source / "sub" / "data").write_text("some data\n")
        tool = self.folder / "tool"
        tool.write_text(
            "#!/bin/sh\ncat input/sub/data > out/copy; mkdir out/d; "
            'echo "$1|$V|$(nproc)" > out/d/words;'
            "id -u; pwd; echo to-err >&2; echo again > /dev/stderr; exit 42\n"
        )
        tool.chmod(0o755)
        for machine, cpus in (("timing", 1), ("timing-smp", 2), ("smp", 2)):
            with self.subTest(machine):
                result = self.run_lab(
                    "renamed",
                    "it's one word",
                    machine=machine,
                    env={"V": "a $b"},
                    inputs=[source, (tool, "renamed")],
                )
                self.assert_ended(result, "exited", 42)
                self.assertEqual(result.exit_code, 42)
                self.assertEqual(result.stdout, "0\n/job\nto-err\nagain\n")
                self.assertEqual((result.out / "copy").read_text(), "some data\n")
                self.assertEqual(
                    (result.out / "d/words").read_text(), f"it's one word|a $b|{cpus}\n"
                )
                self.assertIn("Linux version 7.3", (result.out / "dmesg").read_text())
                status = json.loads((result.out / "status.json").read_text())
                self.assertEqual(status, result.status)
                self.assertEqual((status["machine"], status["exit_status"]), (machine, 42))
                self.assertRegex(status["kernel"], r"^7\.3\.")

    def test_guest_is_as_promised(self) -> None:
        """What jobs rely on: file systems, the kernel's configuration, limits, an ordinary
        priority, modules.
        """
        result = self.run_lab(
            "sh",
            "-e",
            "-x",
            "-c",
            """
            test -s /boot/config-$(uname -r)
            for fs in cgroup2:/sys/fs/cgroup bpf:/sys/fs/bpf debugfs:/sys/kernel/debug \\
                      tracefs:/sys/kernel/tracing \\
                      tmpfs:/job tmpfs:/tmp tmpfs:/dev/shm ext4:/; do
                grep -q " ${fs#*:} ${fs%%:*} " /proc/mounts
            done
            grep -q memory /sys/fs/cgroup/cgroup.subtree_control
            test "$(ulimit -l)" = unlimited
            chrt -p $$ | grep -q SCHED_OTHER
            test "$(cat /proc/sys/kernel/sched_autogroup_enabled)" = 1
            test "$(cat /sys/kernel/sched_ext/state)" = disabled
            test -e /sys/kernel/btf/vmlinux
            touch /usr/bin/root-is-writable
            modprobe overlay
            ip addr show lo | grep -q 127.0.0.1
            for program in mplayer ffmpeg gcc make stress-ng cyclictest hackbench bpftool setsid \\
                           taskset tc nginx ab \\
                           jq dmsetup numactl /lab/compile; do
                command -v $program
            done
            test -s /lab/clips/light.mpg; test -s /lab/clips/heavy.avi
            test -b /dev/vda
            bash -n /run/lab/lib.sh
        """,
            disk_mb=64,
        )
        self.assert_ended(result, "exited", 0)

    def test_large_output_is_whole(self) -> None:
        result = self.run_lab("sh", "-c", "seq 300000; head -c 20000000 /dev/zero > out/zeros")
        self.assert_ended(result, "exited", 0)
        self.assertEqual(result.stdout.splitlines()[-1], "300000")
        self.assertEqual((result.out / "zeros").stat().st_size, 20_000_000)

    def test_processes_left_behind_do_not_hold_the_guest(self) -> None:
        result = self.run_lab(
            "sh", "-c", "(while :; do :; done) & (trap '' TERM; sleep 1000) & echo said; exit 3"
        )
        self.assert_ended(result, "exited", 3)
        self.assertEqual(result.stdout, "said\n")

    def test_killed_and_absent_commands(self) -> None:
        self.assert_ended(self.run_lab("sh", "-c", "kill -9 $$"), "exited", 137)
        self.assert_ended(self.run_lab("no-such-command"), "exited", 127)

    def test_time_limit_brings_back_what_there_is(self) -> None:
        result = self.run_lab(
            "sh",
            "-c",
            "echo early; echo file > out/file; sleep 0.2; while :; do :; done",
            limit=self.boots_in_s * 3,
        )
        self.assert_ended(result, "timeout", None)
        self.assertEqual(result.exit_code, 124)
        self.assertEqual(result.stdout, "early\n")
        self.assertEqual((result.out / "file").read_text(), "file\n")
        # All tasks' states were put into the log, so that a hang can be understood.
        self.assertIn("sysrq: Show State", (result.out / "dmesg").read_text())
        self.assertLess(result.status["wall_s"], self.boots_in_s * 3 + 30)

    def test_time_limit_ends_a_guest_that_answers_no_more(self) -> None:
        """A real-time loop starves even the lab's own helper: the host ends it, and the output is
        here still.
        """
        result = self.run_lab(
            "sh",
            "-c",
            "echo early; sleep 0.5; echo -1 > /proc/sys/kernel/sched_rt_runtime_us; "
            "exec chrt -f 99 sh -c 'while :; do :; done'",
            limit=self.boots_in_s * 3,
        )
        self.assert_ended(result, "timeout", None)
        self.assertEqual(result.stdout, "early\n")
        self.assertLess(result.status["wall_s"], self.boots_in_s * 3 + 40)

    def test_turns_are_short_on_timing_smp(self) -> None:
        """A timer on one busy CPU is not late by the other's work. Without the emulator's own timer
        (TURN_US) it is by 1 to 2 ms.
        """
        result = self.run_lab(
            "sh",
            "-c",
            "taskset -c 0 sh -c 'while :; do :; done' & taskset -c 1 sh -c 'while :; do :; done' & "
            "chrt -f 90 cyclictest -q -p 95 -t 2 -a 0-1 -i 1700 -l 400 -m",
            machine="timing-smp",
        )
        self.assert_ended(result, "exited", 0)
        most = [int(us) for us in re.findall(r"Max: *(\d+)", result.stdout)]
        self.assertEqual(len(most), 2, result.stdout)
        self.assertLess(max(most), 500, result.stdout)

    def test_panic_is_told_as_such(self) -> None:
        result = self.run_lab(
            "sh", "-c", "echo before; sleep 0.2; echo c > /proc/sysrq-trigger; sleep 100"
        )
        self.assert_ended(result, "panic", None)
        self.assertEqual(result.exit_code, 126)
        self.assertEqual(result.stdout, "before\n")
        self.assertIn("Kernel panic", (result.out / "console").read_text())
        self.assertIn("Kernel panic", (result.out / "dmesg").read_text())

    def test_death_by_the_emulators_own_fault_is_tried_again(self) -> None:
        """On smp without KVM a stale breakpoint can kill the kernel; here the kernel's log and a
        panic play it.
        """
        result = self.run_lab(
            "sh",
            "-c",
            "echo '<0>Oops: int3: 0000 [#1]' > /dev/kmsg; echo c > /proc/sysrq-trigger",
            machine="smp",
            accel="tcg",
            limit=2 * LIMIT,
        )
        self.assert_ended(result, "panic", None)
        self.assertEqual((result.status["attempt"], result.status["emulator_fault"]), (3, True))

    def test_guest_that_powers_off_by_itself(self) -> None:
        result = self.run_lab("sh", "-c", "echo o > /proc/sysrq-trigger; sleep 100")
        self.assert_ended(result, "died", None)
        self.assertEqual(result.exit_code, 126)

    def test_guest_that_cannot_boot(self) -> None:
        result = self.run_lab("true", append="init=/none rdinit=/none", limit=60)
        self.assertIn(result.reason, ("panic", "boot-failed"))
        self.assertEqual(result.exit_code, 126)

    def test_old_kernels(self) -> None:
        """6.16 is the oldest of Debian's with sched_ext; 6.12 lacks it, and must boot so that
        refusal can be tested.
        """
        for kernel, has in (("6.16", "yes"), ("6.12", "no")):
            with self.subTest(kernel):
                result = self.run_lab(
                    "sh",
                    "-c",
                    "uname -r; test -e /sys/kernel/sched_ext && echo yes || echo no",
                    kernel=kernel,
                )
                self.assert_ended(result, "exited", 0)
                self.assertRegex(result.stdout, rf"^{kernel}\.\d+\S*\n{has}\n$")

    def test_two_runs_at_once(self) -> None:
        results: dict[str, RunResult] = {}

        def one(name: str) -> None:
            results[name] = self.run_lab(
                "sh",
                "-c",
                f"echo {name}; sleep 1; touch /usr/{name}; ls /usr > out/usr",
                out=self.folder / name,
            )

        threads = [threading.Thread(target=one, args=(name,)) for name in ("first", "second")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name, other in (("first", "second"), ("second", "first")):
            self.assert_ended(results[name], "exited", 0)
            self.assertEqual(results[name].stdout, f"{name}\n")
            self.assertNotIn(other, (results[name].out / "usr").read_text())

    def test_virtual_time_repeats(self) -> None:
        """On the timing machine the same work takes the same time, whatever the host does."""
        times = []
        for _ in range(2):
            result = self.run_lab(
                "sh",
                "-c",
                "read a b < /proc/uptime; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); "
                "done; read c d < /proc/uptime; echo $a $c",
            )
            before, after = map(float, result.stdout.split())
            times.append(after - before)
        self.assertGreater(times[0], 0.1)
        self.assertLess(abs(times[0] - times[1]), 0.035)  # /proc/uptime counts hundredths


if __name__ == "__main__":
    unittest.main()
