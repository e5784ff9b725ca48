"""`make run` and `make install` on a machine with sched_ext, as a user runs them."""

from . import harness


class Install(harness.JobTest):
    """make run and make install where the kernel has sched_ext"""

    job = "install"
    seconds = 160
    inputs = [
        *((harness.REPOSITORY / part, f"tree/{part}") for part in ("scripts", "specs", "dist")),
        (harness.REPOSITORY / "target" / "aplomb-sim", "aplomb-sim"),
    ]
