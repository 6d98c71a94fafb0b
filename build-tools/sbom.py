"""Writes the contents of an image as CycloneDX, during the image build, from the installed and the locked packages.

    python3 sbom.py --name backfill-spark --lock image.txt --site-packages /opt/… [--jars /opt/…/jars] [--debian LIST] > sbom.json

It runs with any Python and needs no packages, because it is copied into the build. A Python package that is not in the lock
fails the build. The output of an image is reproducible: sorted, without a time or a serial number.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OURS = "backfill-operator"
LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", flags=re.MULTILINE)
METADATA = re.compile(r"^(Name|Version): (.+)$", flags=re.MULTILINE)

Component = dict[str, Any]


def canonical(name: str) -> str:
    """Return the normalized name of a package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def python_packages(site_packages: Path, lock: str) -> Iterator[Component]:
    """Yield the installed Python packages.

    Raises:
        SystemExit: a package is not in the lock, or has another version.
    """
    locked = {canonical(name): version for name, version in LOCKED.findall(lock)}
    for folder in site_packages.glob("*.dist-info"):
        found = dict(METADATA.findall((folder / "METADATA").read_text(errors="replace").split("\n\n", 1)[0]))
        name, version = canonical(found["Name"]), found["Version"]
        if name != OURS and locked.get(name) != version:
            sys.exit(f"sbom: {name} {version} is installed and not locked (the lock has {locked.get(name)})")
        yield {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{version}"}


def jars(folder: Path) -> Iterator[Component]:
    """Yield the jars, with their checksums."""
    for jar in folder.glob("*.jar"):
        found = re.fullmatch(r"(.+?)-(\d.*)\.jar", jar.name)
        name, version = found.groups() if found else (jar.stem, "")
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        yield {"type": "library", "name": name, "version": version, "hashes": [{"alg": "SHA-256", "content": digest}]}


def debian_packages(listed: str) -> Iterator[Component]:
    """Yield Debian's packages, from `name version architecture` in each line."""
    for line in listed.splitlines():
        name, version, architecture = line.split()
        purl = f"pkg:deb/debian/{name}@{version}?arch={architecture}"
        yield {"type": "library", "name": name, "version": version, "purl": purl}


def bom(name: str, version: str, components: list[Component]) -> str:
    """Return the document."""
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name, "version": version}},
        "components": sorted(components, key=lambda component: (component["name"], component["version"])),
    }
    return json.dumps(document, indent=1) + "\n"


def main(arguments: list[str]) -> None:
    """Print the document of one image."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", required=True)
    parser.add_argument("--lock", type=Path, required=True)
    parser.add_argument("--site-packages", type=Path, required=True)
    parser.add_argument("--jars", type=Path)
    parser.add_argument("--debian", type=Path, help="`name version architecture` in each line, by dpkg-query")
    given = parser.parse_args(arguments)
    packages = [*python_packages(given.site_packages, given.lock.read_text())]
    found = packages + ([*jars(given.jars)] if given.jars else [])
    if given.debian:
        found += debian_packages(given.debian.read_text())
    version = next(package["version"] for package in packages if package["name"] == OURS)
    sys.stdout.write(bom(given.name, version, found))


if __name__ == "__main__":
    main(sys.argv[1:])
