"""Lab tests of the scheduler in the kernel and of its faults (issue 2, sections 3 and 6)."""
