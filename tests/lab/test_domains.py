"""Domains: shares, cpu.max, cpu.idle, policies and reservations on one CPU, in exact time (issue 4)."""

from . import harness


class Domains(harness.JobTest):
    job = "domains"
