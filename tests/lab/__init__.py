"""Tests of the scheduler in the kernel: what must hold, faults included."""
