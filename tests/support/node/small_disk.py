"""A disk that a test may fill: a file of this machine, mounted where a node keeps its pods."""

import contextlib
import subprocess
from pathlib import Path

GIB = 4


@contextlib.contextmanager
def small_disk(folder):
    """Mount an empty file system of 4 GiB at a folder, for as long as the context lasts; needs root.

    Raises:
        OSError: something is mounted there, or the folder is not empty: what is in it would be hidden.
        CalledProcessError: this machine has no loop device, or none for us.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty")
    disk = folder.with_name(folder.name + ".disk")
    with disk.open("wb") as made:
        made.truncate(GIB << 30)
    try:
        _run("mkfs.ext4", "-q", "-m", "0", disk)
        _run("mount", "-o", "loop", disk, folder)
        try:
            yield folder
        finally:
            _run("umount", folder)
    finally:
        disk.unlink()


def _run(*command):
    subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
