"""Tests on this machine alone: the test suite's own scheduler, set-up, installation."""
