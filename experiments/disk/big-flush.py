"""Of no paper: an editor saves a small file while a large one is written and synced
(dd conv=fsync)."""

from __future__ import annotations

from experiments.framework import saves

EXPERIMENT = saves.experiment(
    title="Saves of an editor beside a large file that is written and synced",
    figure="of no paper; a public complaint",
    about=f"A task writes {saves.FILE_MB} MB to a new file and calls fsync(), again and again. An "
    f"editor writes {saves.SAVE_KB} KB each second and calls fsync(), {saves.SECONDS} times. ext4.",
    flood="anew",
)
