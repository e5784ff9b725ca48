"""The lab: boots a stock Debian kernel in QEMU, runs a command in it, brings back what it wrote.

Experiments add the folder lab/ to sys.path and use `run`; people use the command lab/lab. Both mean
the same.
"""

from .errors import LabError
from .machine import RunResult, run

__all__ = ["LabError", "RunResult", "run"]
