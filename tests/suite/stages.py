"""All stages of `make test` and `make test-full`. Each job of tests/lab is a stage of its own."""

from __future__ import annotations

import importlib
import subprocess

from tests.lab import harness

from .stage import (
    REPOSITORY,
    Stage,
    cargo_checks,
    lab_checks,
    lint_checks,
    unittest_checks,
)

PYTHON = "python3"
OURS = ".venv/bin/python"  # with matplotlib
UNITTEST = ("-m", "unittest", "-v")
LAB_BOOTING = (
    "lab.tests.test_machine",
    "lab.tests.test_cpus",
    "lab.tests.test_disks",
    "lab.tests.test_rotating",
)
LAB_SMOKE = "lab.tests.test_machine.MachineTest.test_files_in_and_out_on_all_machines"
# A guest's memory, and what the emulator itself needs.
GUEST_MB = 2048 + 300


def build_stages() -> list[Stage]:
    """What is built, and what is tested on this machine alone."""
    return [
        Stage("build", "the static binary", ("make", "build"), 260, memory_mb=1500),
        Stage(
            "image",
            "the lab's emulator, root image and kernel",
            ("bash", "-c", "lab/lab qemu && lab/lab image && lab/lab kernel 7.3"),
            240,
        ),
        Stage(
            "kernels",
            "the lab's other kernels",
            ("bash", "-c", "for v in 6.12 6.16 6.18; do lab/lab kernel $v || exit; done"),
            40,
            needs=("image",),
        ),
        Stage(
            "programs",
            "the programs of the lab's jobs",
            ("make", "-s", "-C", "tests/lab/guest", f"OUT={harness.PROGRAMS}"),
            5,
        ),
        Stage(
            "static",
            "the binary needs no library of this machine",
            (
                "bash",
                "-c",
                "ldd target/aplomb 2>&1 | tee /dev/stderr | grep -q 'not a dynamic\\|statically'",
            ),
            1,
            needs=("build",),
            checks=lambda _log: 1,
        ),
        Stage(
            "units",
            "Rust units, and the theorems of the policies as properties",
            ("cargo", "test", "--workspace", "-q"),
            280,
            memory_mb=2000,
            checks=cargo_checks,
        ),
        Stage(
            "check",
            "formatters, linters and type checkers",
            ("scripts/check",),
            130,
            needs=("units",),  # which holds cargo's lock, and leaves what clippy can use
            memory_mb=1500,
            checks=lint_checks,
        ),
        Stage(
            "lab-units",
            "the lab's own parts, without a guest",
            (PYTHON, *UNITTEST, *lab_modules()),
            15,
            checks=unittest_checks,
        ),
        Stage(
            "exp-units",
            "the experiments' own parts",
            (OURS, *UNITTEST, *modules("experiments/tests")),
            40,
            needs=("build",),  # a study runs the simulator
            env=(("PYTHONPATH", "."),),
            checks=unittest_checks,
        ),
        Stage(
            "suite",
            "this test suite, set-up and installation",
            (PYTHON, *UNITTEST, *modules("tests/unit")),
            10,
            needs=("build",),
            checks=unittest_checks,
        ),
        fuzz(120),
    ]


def fuzz(seconds: int) -> Stage:
    """Five targets, one after the other, so many seconds each."""
    return Stage(
        "fuzz",
        f"parsers and protocol against mutated input, {seconds} s each",
        ("fuzz/run", "--seconds", str(seconds)),
        60 + 5 * seconds,
        full=True,
        memory_mb=1500,
        checks=lambda log: log.count("fuzz: "),
    )


def guest_stages() -> list[Stage]:
    """What boots guests, but for the jobs of tests/lab."""
    whole_lab = lab_has_changed()
    return [
        Stage(
            "lab-boots",
            "the lab: machines, kernels, every way to end",
            (PYTHON, *UNITTEST, *(LAB_BOOTING if whole_lab else (LAB_SMOKE,))),
            345 if whole_lab else 40,
            needs=("image", "kernels"),
            memory_mb=2 * GUEST_MB,
            checks=unittest_checks,
        ),
        *(
            []
            if whole_lab
            else [
                Stage(
                    "lab-all",
                    "the lab: machines, kernels, every way to end",
                    (PYTHON, *UNITTEST, *LAB_BOOTING),
                    345,
                    needs=("image", "kernels"),
                    memory_mb=2 * GUEST_MB,
                    full=True,
                    checks=unittest_checks,
                )
            ]
        ),
        Stage(
            "demo",
            "the demonstration of `make run`, short: table and picture",
            (PYTHON, *UNITTEST, "tests.test_demonstration"),
            95,
            needs=("image", "build"),
            memory_mb=2 * GUEST_MB,
            checks=unittest_checks,
        ),
        Stage(
            "experiment",
            "an experiment, short: it runs and reports",
            # A missed mark is reported (exit status 1); a mark is a claim about time, no test.
            (
                "bash",
                "-c",
                f"{OURS} -m experiments run redline/fork-bomb-50 --quick; [ $? -le 1 ]",
            ),
            90,
            needs=("image", "build"),
            memory_mb=2 * GUEST_MB,
            full=True,
        ),
        Stage(
            "selftests",
            "the kernel's own tests of what aplomb replaces",
            ("make", "selftests", "ARGS="),  # else it gets those of `make test ARGS=…`
            900,
            needs=("image", "build"),
            memory_mb=GUEST_MB,
            full=True,
            limit_s=5400,
        ),
    ]


def job_stages() -> list[Stage]:
    """A stage for each job of tests/lab."""
    for module in modules("tests/lab"):
        importlib.import_module(module)
    stages = []
    for job in kinds_of(harness.JobTest):
        needs = ("image", "build", "programs", *job.needs)
        needs += () if job.kernel == "7.3" else ("kernels",)
        stages.append(
            Stage(
                job.__name__,
                (job.__doc__ or job.job).strip().splitlines()[0],
                (PYTHON, *UNITTEST, f"{job.__module__}.{job.__name__}"),
                job.seconds,
                needs=needs,
                memory_mb=job.memory + 300,
                alone=job.machine == "smp",
                full=job.full,
                limit_s=2 * int(job.limit()),
                env=(("APLOMB_LAB_FULL", "1"),),
                checks=lab_checks,
            )
        )
    return stages


def kinds_of(job: type[harness.JobTest]) -> list[type[harness.JobTest]]:
    """All classes below this one, each behind its own."""
    found = []
    for kind in job.__subclasses__():
        found += [kind, *kinds_of(kind)]
    return found


def all_stages() -> list[Stage]:
    return [*build_stages(), *guest_stages(), *job_stages()]


def modules(folder: str) -> list[str]:
    """The test modules of a folder."""
    files = sorted((REPOSITORY / folder).glob("test_*.py"))
    return [str(file.relative_to(REPOSITORY).with_suffix("")).replace("/", ".") for file in files]


def lab_modules() -> list[str]:
    """The lab's test modules that boot no guest."""
    return [module for module in modules("lab/tests") if module not in LAB_BOOTING]


def lab_has_changed() -> bool:
    """Whether lab/ differs from what this work began with: where it branched off the remote's main
    branch, or else the commit before. Without any history it counts as unchanged."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        command = ("git", *words)
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    head = git("rev-parse", "HEAD").stdout.strip()
    base = git("merge-base", "HEAD", "origin/HEAD").stdout.strip()
    if not base or base == head:
        base = git("rev-parse", "--verify", "--quiet", "HEAD~1").stdout.strip()
    return bool(base) and git("diff", "--quiet", base, "--", "lab").returncode != 0


def find(names: list[str], full: bool) -> list[Stage]:
    """The stages of these names, or those of `make test` (full: `make test-full`).

    Raises KeyError for a name that does not exist."""
    known = {stage.name: stage for stage in all_stages()}
    if names:
        return [known[name] for name in names]
    return [stage for stage in known.values() if full or not stage.full]
