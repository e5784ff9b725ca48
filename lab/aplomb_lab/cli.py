"""The command line of lab/lab. Its contract, on which tests rely, is in lab/README.md."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from . import host, programs, selftests
from .cache import Cache
from .errors import LabError
from .image import entry_name, get_image
from .kernel import DEFAULT, entry_suffix, get_kernel
from .machine import LIMIT_S, MEMORY_MB, run
from .qemu import MACHINES
from .tools import Tools

LAB_ERROR = 125


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # One line, and the lab's own status: 2 could be the status of a command in the guest.
        print(f"lab: {message} (try: {self.prog} --help)", file=sys.stderr)
        raise SystemExit(LAB_ERROR)


def _parser() -> _Parser:
    parser = _Parser(
        prog="lab/lab", description="Boots a Debian kernel in QEMU and runs one command in it."
    )
    commands = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=_Parser
    )
    doing = commands.add_parser("run", help="boot a guest and run one command in it")
    doing.add_argument(
        "--machine",
        choices=list(MACHINES),
        default="timing",
        help="timing: one CPU in virtual time; timing-smp: several; smp: several in real time "
        "(default %(default)s)",
    )
    doing.add_argument("--cpus", type=int, metavar="N", help="of timing-smp and smp (default: 2)")
    doing.add_argument(
        "--topology",
        metavar="KEY=N,…",
        help="sockets, cores in each, threads in each, NUMA nodes; e.g. sockets=2,cores=2,nodes=2",
    )
    doing.add_argument(
        "--kernel", default=DEFAULT, metavar="VERSION", help="7.3, 6.16, … (default %(default)s)"
    )
    doing.add_argument(
        "--memory", type=int, default=MEMORY_MB, metavar="MB", help="default %(default)s"
    )
    doing.add_argument(
        "--limit",
        type=float,
        default=LIMIT_S,
        metavar="SECONDS",
        help="wall time, after which the guest is ended (default %(default)g)",
    )
    doing.add_argument(
        "--in",
        dest="inputs",
        action="append",
        default=[],
        metavar="PATH[:NAME]",
        help="a file or folder, in the guest /job/NAME",
    )
    doing.add_argument(
        "--out", required=True, metavar="DIR", help="where results go: /job/out, stdout, dmesg, …"
    )
    doing.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    doing.add_argument("--append", default="", metavar="TEXT", help="more kernel parameters")
    doing.add_argument(
        "--disk",
        action="append",
        default=[],
        metavar="SIZE[,iops=N][,rate=SIZE][,latency=TIME]",
        help="a disk with a time of its own, /dev/disk0, …; SIZE,rpm=N[,seek=TIME][,rate=SIZE]"
        "[,depth=N][,ncq=TIME]: one with seeks and rotation; a bare number of MB: an empty "
        "scratch disk of the emulator, /dev/vda",
    )
    doing.add_argument(
        "--swap",
        action="append",
        default=[],
        metavar="SIZE[,…]",
        help="a swap device likewise, /dev/swap0, …, which is on when the command starts",
    )
    doing.add_argument(
        "--package",
        action="append",
        default=[],
        metavar="NAME",
        help="a package of Debian's beside those that all guests have; builds an image of its own",
    )
    doing.add_argument("--quiet", action="store_true", help="no progress lines")
    doing.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND [ARGUMENT...]")
    commands.add_parser("image", help="build the root image if needed and print its path")
    kernel = commands.add_parser("kernel", help="fetch a kernel if needed and print its path")
    kernel.add_argument("version", nargs="?", default=DEFAULT)
    commands.add_parser("qemu", help="fetch QEMU if needed and print its path")
    commands.add_parser("setup", help="install the host packages that the lab needs")
    commands.add_parser("doctor", help="say what is here and what is missing")
    clean = commands.add_parser("clean", help="remove outdated cache entries")
    clean.add_argument("--all", action="store_true", help="remove everything in the cache")
    return parser


def _split_input(text: str) -> str | tuple[str, str]:
    """PATH or PATH:NAME. A path that exists as it stands may hold colons."""
    if Path(text).exists() or ":" not in text:
        return text
    path, name = text.rsplit(":", 1)
    return (path, name) if name else path


def _run(options: argparse.Namespace) -> int:
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise LabError(
            "no command to run: put it behind --, e.g. lab/lab run --out DIR -- uname -r"
        )
    env = {}
    for item in options.env:
        name, equals, value = item.partition("=")
        if not equals:
            raise LabError(f"--env {item}: write NAME=VALUE")
        env[name] = value
    scratch = [int(text) for text in options.disk if text.isdecimal()]
    if len(scratch) > 1:
        raise LabError(
            "--disk MB: there is one scratch disk; more need a size with its unit, as in 64M"
        )
    result = run(
        command,
        out=options.out,
        machine=options.machine,
        kernel=options.kernel,
        memory=options.memory,
        limit=options.limit,
        inputs=[_split_input(item) for item in options.inputs],
        env=env,
        quiet=options.quiet,
        append=options.append,
        disk_mb=sum(scratch),
        cpus=options.cpus,
        topology=options.topology,
        swaps=options.swap,
        packages=options.package,
        disks=[text for text in options.disk if not text.isdecimal()],
    )
    return result.exit_code


def _clean(cache: Cache, everything: bool) -> None:
    keep: set[str] = set()
    if not everything:
        tools = Tools(cache)
        keep = {"apt", tools.folder.name, entry_name(), programs.entry_name()}
        suffixes = (entry_suffix(tools), selftests.entry_suffix())
        keep |= {e.name for e in cache.entries() if e.name.endswith(suffixes)}
    for folder in cache.entries():
        if folder.name not in keep:
            print(f"removing {folder}")
            cache.remove(folder)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    signal.signal(
        signal.SIGTERM, _interrupt
    )  # so that temporary files go and the guest ends, as with ctrl-C
    try:
        options = _parser().parse_args(arguments)
        cache = Cache()
        match options.action:
            case "run":
                return _run(options)
            case "image":
                print(get_image(cache))
            case "kernel":
                print(get_kernel(cache, options.version).vmlinuz)
            case "qemu":
                print(Tools(cache).path("qemu-system-x86_64"))
            case "setup":
                host.setup()
            case "doctor":
                return 0 if host.doctor(cache) else LAB_ERROR
            case "clean":
                _clean(cache, options.all)
        return 0
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return LAB_ERROR
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        return LAB_ERROR
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        sys.stdout = open(os.devnull, "w")  # or Python would complain once more at its end
        return LAB_ERROR
