"""Redline section 8.3, writing: an editor saves a small file beside two programs that write to
files of 200 MB again and again. The paper: 28 s a save under Linux, 2.5 s under Redline."""

from __future__ import annotations

from experiments.framework import saves

EXPERIMENT = saves.experiment(
    title="Saves of an editor beside two programs that rewrite large files",
    figure="Redline, section 8.3",
    about=f"Two tasks write to an existing file of {saves.FILE_MB} MB each, through the page "
    f"cache, again and again. An editor writes {saves.SAVE_KB} KB each second and calls fsync(), "
    f"{saves.SECONDS} times. ext4.",
    flood="again",
)
