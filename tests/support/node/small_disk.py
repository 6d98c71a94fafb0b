"""A disk that a test may fill: a file of this machine, mounted where a node keeps its pods."""

import contextlib
from pathlib import Path

from support.cluster.harness import said

GIB = 4


@contextlib.contextmanager
def small_disk(folder):
    """Mount an empty file system of 4 GiB at a folder, for as long as the context lasts; needs root.

    Raises:
        OSError: something is mounted there, or the folder is not empty: what is in it would be hidden.
        CommandFailedError: this machine has no loop device, or none for us.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    disk = folder.with_name(folder.name + ".disk")
    with disk.open("wb") as made:
        made.truncate(GIB << 30)
    try:
        said("mkfs.ext4", "-q", "-m", "0", disk)
        said("mount", "-o", "loop", disk, folder)
        try:
            yield folder
        finally:
            said("umount", folder)
    finally:
        disk.unlink()
