"""What an experiment declares, and how it is found: experiments/PAPER/NAME.py defines
EXPERIMENT."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ExperimentError
from .marks import Mark
from .schedulers import Scheduler

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path(__file__).resolve().parents[1]
# Five are of no paper: tree, the domain tree as systemd makes it; memory; disk; net; and cpus,
# machines with more than two.
PAPERS = (
    "redline",
    "eclipse",
    "qlinux",
    "kato",
    "tree",
    "memory",
    "disk",
    "net",
    "cpus",
)

# samples[scheduler][step] is what the experiment's `read` made of that step: plain data, as it is
# in the JSON.
Samples = Mapping[str, Mapping[str, Mapping[str, Any]]]
Table = tuple[Sequence[str], Sequence[Sequence[object]]]


@dataclass(frozen=True)
class Step:
    """One measurement: a function of guest/harness.sh with its arguments, under one scheduler.

    seconds: guest time that it takes, for dividing steps over guests and for time limits.
    profile: the specifications that aplomb has meanwhile, a name in the experiment's `profiles`.
    """

    name: str
    words: Sequence[str]
    seconds: float
    profile: str = "shipped"


@dataclass(frozen=True)
class Profile:
    """Specifications for one step: lines in Redline's format, beside the shipped ones or (only)
    instead of them. config: lines of aplomb.toml."""

    lines: tuple[str, ...] = ()
    only: bool = False
    config: tuple[str, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A figure or table: the steps for each scheduler, what they leave, what it must show, how it
    is drawn."""

    title: str
    figure: str  # what it reproduces, e.g. "Redline, Fig. 5"
    about: str  # what is done, in a few sentences
    steps: Callable[[Scheduler, bool], Sequence[Step]]  # (scheduler, quick)
    read: Callable[[Path], Mapping[str, Any]]  # what a step left in its folder, as plain data
    judge: Callable[[Samples], Sequence[Mark]]
    table: Callable[[Samples], Table]
    draw: Callable[[Samples], Figure]
    schedulers: tuple[str, ...] = ("eevdf", "deadline", "scx_bpfland", "scx_lavd", "aplomb")
    quick_schedulers: tuple[str, ...] = ("eevdf", "aplomb")
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)  # numbers that a reader wants to know
    machine: str = "timing"
    cpus: int | None = None  # of a machine with several: not the lab's usual number
    memory_mb: int = 2048  # of each guest; as much as the lab gives unasked
    disks: tuple[str, ...] = ()  # of each guest, as the lab's --disk: "64M,iops=400,rate=40M"
    swaps: tuple[str, ...] = ()  # likewise, as --swap
    packages: tuple[str, ...] = ()  # Debian's, that its guests have beside those of all
    # What the guests find in /job beside the workloads; with a name: under that one.
    inputs: tuple[Path | tuple[Path, str], ...] = ()
    subject: str = "aplomb"  # the scheduler that is judged: without it there are no marks
    name: str = ""  # PAPER/NAME, from the file


@dataclass(frozen=True)
class Study:
    """An experiment in the simulator: a command on this machine that prints samples, judged and
    drawn as the others.

    Samples are by policy (what the simulator schedules with) where an experiment in the lab has
    schedulers.
    """

    title: str
    figure: str
    about: str
    command: Callable[[bool], Sequence[str]]  # (quick): words for aplomb-sim, without --json
    read: Callable[[Any], Samples]  # what it printed, as samples
    judge: Callable[[Samples], Sequence[Mark]]
    table: Callable[[Samples], Table]
    draw: Callable[[Samples], Figure]
    subject: str  # the policy that is judged
    settings: Mapping[str, Any] = field(default_factory=dict)
    machine: str = "simulator"
    name: str = ""


def names() -> list[str]:
    """All experiments, as PAPER/NAME."""
    return sorted(
        f"{paper}/{file.stem}" for paper in PAPERS for file in (FOLDER / paper).glob("*.py")
    )


def load_lab(name: str) -> Experiment:
    """The experiment PAPER/NAME, which must be measured in the lab. Raises ExperimentError."""
    found = load(name)
    if not isinstance(found, Experiment):
        raise ExperimentError(f"{name} runs in the simulator, not in the lab")
    return found


def load_study(name: str) -> Study:
    """The study PAPER/NAME, which must run in the simulator. Raises ExperimentError."""
    found = load(name)
    if not isinstance(found, Study):
        raise ExperimentError(f"{name} is measured in the lab, not in the simulator")
    return found


def load(name: str) -> Experiment | Study:
    """The experiment PAPER/NAME. Raises ExperimentError if there is none."""
    if name not in names():
        raise ExperimentError(f"there is no experiment {name!r}; there are: {', '.join(names())}")
    path = FOLDER / f"{name}.py"
    spec = importlib.util.spec_from_file_location(
        "experiments.file." + name.replace("/", ".").replace("-", "_"), path
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, (Experiment, Study)):
        raise ExperimentError(f"{path} does not define EXPERIMENT")
    return replace(experiment, name=name)
