"""A release of this checkout, built by the program of `make release` from a copy, and published to a registry as its workflow does."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from support.cluster.harness import kit_home, said, tool
from support.registry.push import push
from support.repository import ROOT, tracked

INPUTS = ROOT / "build" / "image"
EXPORT = """#!/bin/sh
# The images are in the store of the kit's buildah.
exec unshare --mount --propagation private buildah --root {images}/store --runroot {images}/run \\
    --storage-driver "${{STORAGE_DRIVER:-overlay}}" push -q {flags} "$1" "oci-archive:$2"
"""
GIT = ("git", "-c", "user.name=release", "-c", "user.email=release@release.example")


@dataclass(frozen=True)
class Release:
    """The files of a release, and the names by which a cluster finds them."""

    folder: Path
    version: str
    images: dict[str, str]
    """Image with its digest, by name: as the chart names them."""

    @property
    def chart(self):
        """The packaged chart."""
        return self.folder / f"backfill-operator-{self.version}.tgz"


def build_release(tree, registry):
    """Build a release of this checkout in an empty folder, for a registry such as `10.0.0.1:5000/team`.

    Raises:
        CommandFailedError: with the last lines of the program that failed.
    """
    _copy(tree)
    version = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["version"]
    changelog = tree / "CHANGELOG.md"
    changelog.write_text(
        changelog.read_text().replace("## [Unreleased]", f"## [Unreleased]\n\n## [{version}] - 2026-01-01", 1)
    )
    said("git", "init", "-q", cwd=tree)
    said(*GIT, "add", "-A", cwd=tree)
    said(*GIT, "commit", "-q", "-m", "build: release", cwd=tree)
    export = write_export(tree / "build" / "export.sh")
    helm = Path(tool("helm")).parent
    environ = os.environ | {"PATH": f"{helm}{os.pathsep}{os.environ['PATH']}"}
    program = (sys.executable, "build-tools/release/make.py", version, registry, "--export", f"sh {export}")
    said(*program, cwd=tree, environ=environ)
    folder = tree / "dist" / version
    said("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS", cwd=folder)
    stated = json.loads((folder / "provenance.intoto.json").read_text())
    digests = {subject["name"]: subject["digest"]["sha256"] for subject in stated["subject"]}
    names = {name: f"{registry}/backfill-{name}" for name in ("operator", "spark")}
    return Release(folder, version, {name: f"{image}@sha256:{digests[image]}" for name, image in names.items()})


def write_export(path, flags=""):
    """Write the program that exports an image of the kit to an OCI archive, and return its path; `flags`: flags of `buildah push`."""
    path.write_text(EXPORT.format(images=kit_home() / "images", flags=flags))
    return path


def _copy(tree):
    """Copy the files of this checkout, and link the inputs of its images."""
    tree.mkdir(parents=True)
    for path in tracked():
        copy = tree / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    link_inputs(tree)


def link_inputs(tree):
    """Link what `make setup` and earlier image builds made into a tree."""
    (tree / ".cache").mkdir()
    (tree / ".cache" / "jars").symlink_to((ROOT / ".cache" / "jars").resolve())
    (tree / ".venv").symlink_to((ROOT / ".venv").resolve())
    (tree / "build").mkdir()
    if INPUTS.is_dir():
        subprocess.run(["cp", "-al", str(INPUTS), str(tree / "build" / "image")], check=True)


def publish(release, registry, team):
    """Push images and chart of a release below a team of a registry; return the arguments by which helm finds the chart."""
    for name, image in release.images.items():
        archive = release.folder / f"backfill-{name}-{release.version}.oci.tar"
        assert push(archive, registry, f"{team}/backfill-{name}", release.version) == image.partition("@")[2]
    charts, trusted = f"oci://{registry.address}/{team}/charts", ("--ca-file", registry.certificate)
    said(tool("helm"), "push", release.chart, charts, *trusted)
    return (f"{charts}/backfill-operator", "--version", release.version, *trusted)
