"""A disk that a test may fill: a file of this machine, mounted where a node keeps its pods."""

import contextlib
from pathlib import Path

import pytest
from support.cluster.harness import kit_home, said

GIB = 4
OF_ITS_OWN = {"CLUSTER": "pressure", "CLUSTER_NET": "78"}
"""By these variables the kit makes another cluster beside its first: another folder, other addresses."""


@contextlib.contextmanager
def cluster_on_a_small_disk():
    """Have the kit's cluster be one of its own while the context lasts, with its pods and images on a disk of 4 GiB; needs root.

    Raises:
        What `small_disk` raises.
    """
    with small_disk(kit_home() / "clusters" / OF_ITS_OWN["CLUSTER"]), pytest.MonkeyPatch.context() as patch:
        for name, value in OF_ITS_OWN.items():
            patch.setenv(name, value)
        yield


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
