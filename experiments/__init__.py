"""The papers' figures and tables as experiments that one command runs, judges and draws (see README.md)."""
