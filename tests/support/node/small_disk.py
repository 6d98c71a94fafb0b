"""A disk that a test may fill: a file of this machine, mounted where a node keeps its pods."""

import contextlib
from pathlib import Path

import pytest
from support.cluster.harness import kit_home, said

GIB = 4
OF_ITS_OWN = {"CLUSTER": "pressure", "CLUSTER_NET": "78"}
"""Variables that make the kit create another cluster next to its first: another folder, other addresses."""


@contextlib.contextmanager
def cluster_on_a_small_disk():
    """Let the kit's cluster be a separate one during the context, with its pods and images on a disk of 4 GiB; needs root.

    Raises:
        Any error of `small_disk`.
    """
    with small_disk(kit_home() / "clusters" / OF_ITS_OWN["CLUSTER"]), pytest.MonkeyPatch.context() as patch:
        for name, value in OF_ITS_OWN.items():
            patch.setenv(name, value)
        yield


@contextlib.contextmanager
def small_disk(folder):
    """Mount an empty file system of 4 GiB at a folder during the context; needs root.

    Raises:
        OSError: a file system is mounted there, or the folder is not empty: its content would be hidden.
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
