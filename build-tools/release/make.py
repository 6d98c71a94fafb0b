"""Build a release into `dist/VERSION`: packages, images, the chart, bills of materials, provenance and checksums.

    make release VERSION=0.1.0 REGISTRY=registry.example/team

Nothing is published. The images are OCI archives, and the chart names them by digest, so a later push to REGISTRY does not change
them. The build refuses a version that package, chart and changelog do not have, and a tree with uncommitted changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import yaml
from chart import CHART, IMAGES, ChartError, package, write_chart
from oci_archive import ArchiveError, OciArchive
from provenance import statement

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements/image.txt", "requirements/jars.sha256")
BILL = "/usr/share/backfill/sbom.cdx.json"
VERSION = re.compile(r"\d+\.\d+\.\d+(-(alpha|beta|rc)\.\d+)?")
REGISTRY = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)*")


class ReleaseError(Exception):
    """The release is not possible; the message names each reason."""


def changes(changelog: str, version: str) -> list[str] | None:
    """Return the points of a version in the changelog; `None` if it has no section."""
    section = re.search(rf"^## \[{re.escape(version)}\].*?$(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if section is None:
        return None
    return [
        " ".join(point.split()) for point in re.findall(r"^- (.+?)(?=^\S|^$|\Z)", section[1], re.MULTILINE | re.DOTALL)
    ]


def obstacles(root: Path, version: str, registry: str) -> list[str]:
    """Return the reasons why a version cannot be released yet, each with its file and value."""
    found = []
    if not VERSION.fullmatch(version):
        found.append(f"VERSION {version!r} is not a version such as 0.1.0 or 0.1.0-rc.1")
    if not REGISTRY.fullmatch(registry):
        found.append(f"REGISTRY {registry!r} is not a registry such as registry.example/team")
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    about = yaml.safe_load((root / CHART / "Chart.yaml").read_text())
    for place, value in (
        ("pyproject.toml: project.version", project),
        (f"{CHART}/Chart.yaml: version", about["version"]),
        (f"{CHART}/Chart.yaml: appVersion", about["appVersion"]),
    ):
        if str(value) != version:
            found.append(f"{place} is {value}, not {version}")
    if not changes((root / "CHANGELOG.md").read_text(), version):
        found.append(f"CHANGELOG.md has no changes below `## [{version}] - YYYY-MM-DD`")
    changed = run(["git", "status", "--porcelain"], root).splitlines()
    if changed:
        found.append(f"uncommitted changes: {', '.join(line[3:] for line in changed[:5])}")
    return found


def run(command: list[str], root: Path) -> str:
    """Run a program in the project and return its output.

    Raises:
        ReleaseError: it is missing or failed; the message has the end of its output.
    """
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise ReleaseError(f"{command[0]} is missing") from error
    if done.returncode:
        raise ReleaseError(f"{shlex.join(command)} failed: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def build_packages(root: Path, out: Path) -> None:
    """Build the wheel and the source distribution, and check their descriptions as the package index does.

    Raises:
        ReleaseError: a build or the check failed.
    """
    run([sys.executable, "-m", "hatchling", "build", "-d", str(out)], root)
    run(
        [
            sys.executable,
            "-m",
            "twine",
            "check",
            "--strict",
            *map(str, sorted(out.glob("*.whl")) + sorted(out.glob("*.tar.gz"))),
        ],
        root,
    )


@dataclass(frozen=True)
class ImageCommands:
    """Programs that make images, as command lines."""

    parts: str = "build-tools/image_parts.sh"
    """Puts the inputs of the images into place."""

    build: str = "build-tools/image_build.sh"
    """Builds an image: `BUILD DIR TAG --target NAME`."""

    export: str = "build-tools/image_export.sh"
    """Writes a built image as an OCI archive: `EXPORT TAG FILE`."""


def build_images(root: Path, out: Path, version: str, commands: ImageCommands) -> dict[str, OciArchive]:
    """Build the images, and return their archives by name; each bill of materials is in the same folder.

    Args:
        root: The project.
        out: Folder of the archives.
        version: Tag of the images.
        commands: Programs that make images.

    Raises:
        ReleaseError: a command failed.
        ArchiveError: an archive is not an OCI archive, or has no bill of materials.
    """
    run(shlex.split(commands.parts), root)
    built = {}
    for name in IMAGES:
        tag, file = f"localhost/backfill-{name}:{version}", out / f"backfill-{name}-{version}.oci.tar"
        run([*shlex.split(commands.build), ".", tag, "--target", name], root)
        run([*shlex.split(commands.export), tag, str(file)], root)
        built[name] = OciArchive(file)
        (out / f"backfill-{name}-{version}.cdx.json").write_bytes(built[name].file(BILL))
    return built


def release(root: Path, out: Path, *, version: str, registry: str, commands: ImageCommands) -> None:
    """Build a release into an empty folder; see the module.

    Raises:
        ReleaseError: the sources are not ready, or a program failed.
        ArchiveError: an image is damaged or incomplete.
        ChartError: helm refuses the chart.
    """
    if found := obstacles(root, version, registry):
        raise ReleaseError("\n".join(found))
    if out.exists() and any(out.iterdir()):
        raise ReleaseError(f"{out} is not empty: remove it, or choose another version")
    out.mkdir(parents=True, exist_ok=True)
    build_packages(root, out)
    archives = build_images(root, out, version, commands)
    images = {name: f"{registry}/backfill-{name}@{archive.digest}" for name, archive in archives.items()}
    with tempfile.TemporaryDirectory() as folder:
        listed = changes((root / "CHANGELOG.md").read_text(), version) or []
        copy = write_chart(root, Path(folder), version=version, images=images, changes=listed)
        package(copy, out)
    subjects = {path.name: digest(path) for path in out.iterdir()}
    subjects |= {
        image.partition("@")[0]: archives[name].digest.removeprefix("sha256:") for name, image in images.items()
    }
    stated = statement(
        subjects, version=version, registry=registry, revision=run(["git", "rev-parse", "HEAD"], root).strip(),
        inputs={path: digest(root / path) for path in LOCKS},
    )  # fmt: skip
    (out / "provenance.intoto.json").write_text(json.dumps(stated, indent=1) + "\n")
    sums = [f"{digest(path)}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(sums))


def main(arguments: list[str]) -> int:
    """Build a release of this project."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("registry")
    parser.add_argument("--build", default=ImageCommands.build)
    parser.add_argument("--export", default=ImageCommands.export)
    given = parser.parse_args(arguments)
    out = ROOT / "dist" / given.version
    try:
        commands = ImageCommands(build=given.build, export=given.export)
        release(ROOT, out, version=given.version, registry=given.registry, commands=commands)
    except (ReleaseError, ArchiveError, ChartError) as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    for path in sorted(out.iterdir()):
        print(f"{path.stat().st_size:>13,}  {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
