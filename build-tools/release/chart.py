"""The chart of a release: images by digest, and what Artifact Hub shows."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

CHART = "charts/backfill-operator"
IMAGES = {"operator": "images.operator", "spark": "images.spark"}
"""Images with the value of the chart that names each."""


class ChartError(Exception):
    """The chart cannot be packaged; the message has helm's reason."""


def write_chart(root: Path, folder: Path, *, version: str, images: Mapping[str, str], changes: Sequence[str]) -> Path:
    """Copy the chart with the images and the annotations of a release; return the folder of the copy.

    Args:
        root: The project.
        folder: An empty folder for the copy.
        version: Version of chart and application.
        images: Full name with digest, by the name of the image in `IMAGES`.
        changes: Changes of the release, for Artifact Hub.

    Raises:
        ChartError: the chart has no line with a default image.
    """
    copy = folder / Path(CHART).name
    shutil.copytree(root / CHART, copy)
    about: dict[str, Any] = yaml.safe_load((copy / "Chart.yaml").read_text())
    about |= {"version": version, "appVersion": version}
    about["annotations"] = {
        **about.get("annotations", {}),
        "artifacthub.io/images": yaml.safe_dump([{"name": name, "image": image} for name, image in images.items()]),
        "artifacthub.io/changes": yaml.safe_dump(list(changes), allow_unicode=True),
    }
    (copy / "Chart.yaml").write_text(yaml.safe_dump(about, sort_keys=False, allow_unicode=True))
    values = (copy / "values.yaml").read_text()
    for name, image in images.items():
        default = f"localhost/backfill-{name}:dev"
        if values.count(f"{name}: {default} ") != 1:
            raise ChartError(f"{CHART}/values.yaml does not name {default} exactly once")
        values = values.replace(f"{name}: {default} ", f"{name}: {image} ")
    (copy / "values.yaml").write_text(values)
    return copy


def package(copy: Path, out: Path) -> Path:
    """Package a chart into a folder, and return the archive.

    Raises:
        ChartError: helm is missing, or refuses the chart.
    """
    if shutil.which("helm") is None:
        raise ChartError("helm is needed to package the chart")
    for command in (["helm", "lint", "--strict", str(copy)], ["helm", "package", str(copy), "--destination", str(out)]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ChartError(f"{' '.join(command[:2])}: {done.stdout}{done.stderr}".strip())
    [archive] = out.glob(f"{copy.name}-*.tgz")
    return archive
