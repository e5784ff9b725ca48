"""Builds the kernel's selftests of cgroups, runs them under two schedulers, and compares the
results (lab/selftests).

The source is Debian's linux-source-X.Y package: of it, tools/testing/selftests/cgroup and the
headers that it includes are unpacked and compiled statically, in the lab's cache. Each pair of a
scheduler and a number of CPUs is one guest of timing-smp; guests run side by side, since their time
is virtual.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .apt import Apt, unpack
from .cache import Cache, recipe_hash
from .errors import LabError
from .image import GUEST_FILES
from .kernel import DEFAULT, version_key
from .machine import RunResult, run
from .report import call, find_program, progress

REPOSITORY = Path(__file__).resolve().parents[2]
# What aplomb replaces or reaches into: CPU shares and limits, freezing, killing, moving; and
# memory, whose tests are the base for what comes there.
TESTS = ("test_cpu", "test_freezer", "test_kill", "test_core", "test_memcontrol")
MUST_PASS = ("test_cpu",)  # fails under aplomb are failures, whatever the stock scheduler does
SCHEDULERS = ("stock", "aplomb")
LIMIT_S = 2400.0  # wall seconds of a guest, on a crowded host
# Some cases race: test_memcg_high_sync passes if it reads a counter before its own child, on
# another CPU, has filled 140 MB. In virtual time the emulator runs one CPU at a time, so that is a
# coin toss under both schedulers. So a test with a case that is worse under aplomb runs again, up
# to this many rounds in all. A case that has failed under stock does not pass under stock; of one
# that passes there in every round, most rounds under aplomb must pass. A fair coin is taken for a
# fault of aplomb in 1 of 64 runs.
ROUNDS = 5
FORMAT = "1"  # raise it when what is built changes
_FOLDER = "tools/testing/selftests/"
_NEEDED = re.compile(
    r"[^/]+/tools/testing/selftests/(?:[^/]+\.h|(?:cgroup|clone3|pidfd)/.*\.[ch])$"
)
_RESULT = re.compile(
    r"^(not ok|ok) \d+ (?:# ([A-Z]+) )?(\w+)", re.M
)  # kselftest.h: the directive comes first


@dataclass(frozen=True)
class Guest:
    """One boot: a scheduler on so many CPUs."""

    scheduler: str
    cpus: int


Results = dict[tuple[str, str], str]  # (test, case): pass, fail, skip or xfail


def parse_results(test: str, text: str) -> Results:
    """What a test's output says of its cases, in the TAP format."""
    found: Results = {}
    for verdict, directive, case in _RESULT.findall(text):
        found[test, case] = directive.lower() or ("pass" if verdict == "ok" else "fail")
    return found


def problems(stock: Results, aplomb: Results, must_pass: tuple[str, ...] = MUST_PASS) -> list[str]:
    """What is wrong with aplomb's results, one line each."""
    found = []
    for key in sorted(stock.keys() | aplomb.keys()):
        before, now = stock.get(key, "none"), aplomb.get(key, "none")
        name = "/".join(key)
        if before == "pass" and now != "pass":
            found.append(f"{name}: pass under stock, {now} under aplomb")
        elif now == "fail" and key[0] in must_pass:
            found.append(f"{name}: fail under aplomb (under stock: {before})")
    return found


def usual(rounds: list[Results]) -> Results:
    """Of several rounds, what each case ended as most often; the first round's verdict if none."""
    return {key: statistics.mode(verdicts) for key, verdicts in _by_case(rounds).items()}


def steady(rounds: list[Results]) -> Results:
    """What each case ended as in all rounds; "mixed" if they differ."""
    return {
        key: verdicts[0] if len(set(verdicts)) == 1 else "mixed"
        for key, verdicts in _by_case(rounds).items()
    }


def _by_case(rounds: list[Results]) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for results in rounds:
        for key, verdict in results.items():
            found.setdefault(key, []).append(verdict)
    return found


def entry_suffix() -> str:
    """How the names of current entries end."""
    return "-" + recipe_hash(FORMAT, *TESTS)


def build(cache: Cache, kernel: str, quiet: bool = False) -> Path:
    """The folder of the built tests, from the cache or built now."""
    version = ".".join(map(str, version_key(kernel)[:2]))
    name = f"selftests-{version}{entry_suffix()}"
    return cache.get(
        name, lambda work: _build(work, cache, version, quiet), f"selftests of {version}", quiet
    )


def _build(work: Path, cache: Cache, version: str, quiet: bool) -> None:
    gcc = find_program("gcc", "gcc libc6-dev")
    progress(f"fetching linux-source-{version} and building its selftests…", quiet)
    unpack(
        Apt(cache, quiet).download([f"linux-source-{version}"], work / "package"), work / "package"
    )
    archive = next((work / "package/usr/src").glob("linux-source-*.tar.*"), None)
    if archive is None:
        raise LabError(f"the package linux-source-{version} holds no usr/src/linux-source-*.tar.*")
    _unpack_needed(archive, work / "source")
    shutil.rmtree(work / "package")
    folder = next((work / "source").iterdir()) / _FOLDER / "cgroup"
    if not folder.is_dir():
        raise LabError(f"linux-source-{version} holds no {_FOLDER}cgroup")
    for test in TESTS:
        call(
            [
                gcc,
                "-O2",
                "-w",
                "-pthread",
                "-static",
                "-D_GNU_SOURCE=",
                f"-I{folder.parent}",
                f"-I{folder}/lib/include",
                "-o",
                work / test,
                folder / f"{test}.c",
                folder / "lib/cgroup_util.c",
            ],
            what=f"compiling {test}",
        )
    shutil.rmtree(work / "source")


def _unpack_needed(archive: Path, target: Path) -> None:
    """Only the tests and their headers: the whole source has 1.6 GB."""
    with tarfile.open(archive) as source:
        for member in source:
            if not member.isfile() or not _NEEDED.match(member.name) or ".." in member.name:
                continue
            content = source.extractfile(member)
            assert content is not None  # it is a file
            (target / member.name).parent.mkdir(parents=True, exist_ok=True)
            (target / member.name).write_bytes(content.read())


def _binary() -> Path:
    path = REPOSITORY / "target" / "aplomb"
    if not path.exists():
        raise LabError(f"{path} is not there: make build")
    return path.resolve()


def run_guest(
    guest: Guest, tests: list[str], kernel: str, built: Path, out: Path, binary: Path
) -> Results:
    """Boot one guest, run the tests, read their results."""
    result = run(
        ["bash", "selftests.sh", *tests],
        out=out,
        machine="timing-smp",
        kernel=kernel,
        cpus=guest.cpus,
        limit=LIMIT_S,
        env={"SCHEDULER": guest.scheduler},
        quiet=False,
        inputs=[(binary, "aplomb"), (built, "selftests"), GUEST_FILES / "selftests.sh"],
    )
    return read_guest(guest, tests, result)


def read_guest(guest: Guest, tests: list[str], result: RunResult) -> Results:
    """The results of a guest that has ended. Raises LabError if it did not end well."""
    failure = result.out / "failure"
    where = f"{guest.scheduler} on {guest.cpus} CPUs"
    if failure.exists():
        raise LabError(f"{where}: {failure.read_text().strip()} (see {result.out})")
    if result.reason != "exited" or result.exit_status != 0:
        raise LabError(
            f"{where}: the guest ended with {result.reason}, status {result.exit_status} "
            f"(see {result.out})"
        )
    found: Results = {}
    for test in tests:
        results = parse_results(test, (result.out / test).read_text(errors="replace"))
        if not results:
            raise LabError(f"{where}: {test} said nothing about any case (see {result.out / test})")
        found |= results
    return found


def table(cpus: int, stock: Results, aplomb: Results) -> str:
    """One line a case: how it ended under both schedulers."""
    rows = [("test", "case", "stock", "aplomb")]
    rows += [(*key, stock.get(key, "-"), aplomb.get(key, "-")) for key in {**stock, **aplomb}]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [
        "  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip() for row in rows
    ]
    totals = [
        f"{name}: "
        + ", ".join(f"{list(results.values()).count(v)} {v}" for v in ("pass", "fail", "skip"))
        for name, results in (("stock", stock), ("aplomb", aplomb))
    ]
    return "\n".join([f"{cpus} CPUs", *lines, *totals])


def _verdicts(rounds: list[dict[Guest, Results]], cpus: int) -> tuple[Results, Results]:
    """Of all rounds on so many CPUs: stock's results, aplomb's."""
    stock, aplomb = (
        [results[guest] for results in rounds if guest in results]
        for guest in (Guest(scheduler, cpus) for scheduler in SCHEDULERS)
    )
    return steady(stock), usual(aplomb)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="lab/selftests",
        description="The kernel's own tests of cgroups, under the "
        "kernel's scheduler and under aplomb.",
    )
    parser.add_argument("--cpus", default="2,4", help="numbers of CPUs (default %(default)s)")
    parser.add_argument("--tests", default=",".join(TESTS), help="default: %(default)s")
    parser.add_argument("--kernel", default=DEFAULT, help="default %(default)s")
    parser.add_argument(
        "--jobs", type=int, default=2, help="guests side by side (default %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=REPOSITORY / "target/selftests", help="where outputs go"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    tests = options.tests.split(",")
    unknown = set(tests) - set(TESTS)
    try:
        if unknown:
            raise LabError(
                f"no selftest {', '.join(sorted(unknown))}: choose among {', '.join(TESTS)}"
            )
        counts = [int(word) for word in options.cpus.split(",")]
        built, binary = build(Cache(), options.kernel), _binary()
        guests = [Guest(scheduler, cpus) for cpus in counts for scheduler in SCHEDULERS]

        def run_all(chosen: dict[Guest, list[str]], suffix: str) -> dict[Guest, Results]:
            with ThreadPoolExecutor(options.jobs) as pool:
                running = {
                    guest: pool.submit(
                        run_guest,
                        guest,
                        words,
                        options.kernel,
                        built,
                        options.out / f"{guest.scheduler}-{guest.cpus}{suffix}",
                        binary,
                    )
                    for guest, words in chosen.items()
                }
                return {guest: future.result() for guest, future in running.items()}

        rounds = [run_all(dict.fromkeys(guests, tests), "")]
        while len(rounds) < ROUNDS:
            again: dict[Guest, list[str]] = {}
            for cpus in counts:
                lines = problems(*_verdicts(rounds, cpus))
                worse = sorted({line.split("/")[0] for line in lines})
                if worse:
                    again |= {Guest(scheduler, cpus): worse for scheduler in SCHEDULERS}
            if not again:
                break
            rounds.append(run_all(again, f"-round-{len(rounds) + 1}"))
    except (LabError, ValueError) as error:
        print(f"selftests: {error}", file=sys.stderr)
        return 1
    wrong = []
    for cpus in counts:
        stock, aplomb = _verdicts(rounds, cpus)
        print(table(cpus, stock, aplomb), end="\n\n")
        wrong += [f"{cpus} CPUs: {line}" for line in problems(stock, aplomb)]
    print("\n".join(wrong) if wrong else "what passes under stock passes under aplomb")
    return 1 if wrong else 0
