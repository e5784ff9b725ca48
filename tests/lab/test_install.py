"""`make run` on a machine with sched_ext, and what `make install` leaves, as a user meets them (issue 2, section 1)."""

from . import harness


class Install(harness.JobTest):
    job = "install"
    inputs = [(harness.REPOSITORY / part, f"tree/{part}") for part in ("scripts", "specs", "dist")] + [
        ((harness.REPOSITORY / "target/aplomb-sim").resolve(), "aplomb-sim")]
