"""Domains on one CPU, in virtual time."""

from . import harness


class Domains(harness.JobTest):
    """domains: shares, cpu.max, cpu.idle, policies, reservations"""

    job = "domains"
    seconds = 190
