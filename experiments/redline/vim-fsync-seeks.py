"""Redline section 8.3, writing, on a disk with seeks: as redline/vim-fsync."""

from __future__ import annotations

from experiments.framework import saves

EXPERIMENT = saves.experiment(
    title="Saves of an editor beside two programs that rewrite large files, on a disk with seeks",
    figure="Redline, section 8.3",
    about=f"Two tasks write to an existing file of {saves.FILE_MB} MB each, through the page "
    f"cache, again and again. An editor writes {saves.SAVE_KB} KB each second and calls fsync(), "
    f"{saves.SECONDS} times. ext4, on a disk of 7,200 turns a minute.",
    flood="again",
    devices=(saves.SEEKS,),
)
