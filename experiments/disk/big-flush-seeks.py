"""Of no paper: as disk/big-flush, on a disk with seeks."""

from __future__ import annotations

from experiments.framework import saves

EXPERIMENT = saves.experiment(
    title="Saves beside a large file that is written and synced, on a disk with seeks",
    figure="of no paper; a public complaint",
    about=f"A task writes {saves.FILE_MB} MB to a new file and calls fsync(), again and again. An "
    f"editor writes {saves.SAVE_KB} KB each second and calls fsync(), {saves.SECONDS} times. ext4, "
    "on a disk of 7,200 turns a minute.",
    flood="anew",
    devices=(saves.SEEKS,),
)
