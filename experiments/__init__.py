"""The experiments: figures and tables of the papers, each run, judged and drawn by one command."""
