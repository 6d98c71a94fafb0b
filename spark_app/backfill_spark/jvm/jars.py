"""The jars of Delta and of Spark's Kafka connector, each with the checksum that this release was tested with.

They come from the first of these places that has them:

1. the folder of a setting;
2. Spark's own jars, in an image;
3. the cache of a clone, after its setup;
4. a folder in the user's cache.

The last folder is filled once: from a package cache of an earlier Spark in the home folder, or by Spark's own package resolver. The
resolver uses the mirrors of this machine, and its output is kept in a log.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from backfill_core.errors import JarsMissingError

_HERE = Path(__file__).parent
_CLONE = Path(__file__).parents[3] / "requirements" / "jars.sha256"
CHECKSUMS = _CLONE if _CLONE.is_file() else _HERE / "jars.sha256"
"""File of checksums in a clone; a wheel contains a copy."""

OF_THE_CLONE = _CLONE.parent.parent / ".cache" / "jars"
"""Folder for jars and a class archive, which the setup of a clone fills."""

RESOLVE_END_S = 600
_NAMED = re.compile(r"(?P<group>[^_]+)_(?P<name>.+?)-(?P<version>\d+\.\d[^_]*)\.jar")
"""File name of a jar from Spark's resolver; the version starts at the first dotted number: `kafka-0-10_2.13-4.2.0`, `jni-1.5.6-4`."""


@dataclass(frozen=True, slots=True)
class JarList:
    """Jars that belong together, with all their dependencies except Java."""

    description: str
    """Name of these jars in messages."""

    checksums: Path
    """File with the checksum and the name of one jar per line."""

    def wanted(self) -> dict[str, str]:
        """Return the checksum of each jar by its name."""
        return {name: digest for digest, name in map(str.split, self.checksums.read_text("utf-8").splitlines())}

    def missing(self, folder: Path) -> list[str]:
        """Return the names of the jars that are missing in a folder, or have other content there."""
        return [name for name, digest in self.wanted().items() if not _fits(folder / name, digest)]

    def fill(self, folder: Path, caches: Iterable[Path] | None = None) -> None:
        """Put the jars into a folder; do nothing if it is complete.

        Args:
            folder: Created if it is missing. Other jars in it are removed, because all jars of the folder go onto the class path.
            caches: Folders of jars to copy from; by default, those of earlier Sparks in the home folder.

        Raises:
            JarsMissingError: some jars could not be fetched, or have another checksum.
        """
        if folder.is_dir() and not self.missing(folder):
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for jar in folder.glob("*.jar"):
                if jar.name not in self.wanted():
                    jar.unlink()
            self._copy(folder, Path.home().glob(".ivy2*/jars") if caches is None else caches)
            if lost := self.missing(folder):
                print(f"fetching {self.description} into {folder}, once", file=sys.stderr)
                with tempfile.TemporaryDirectory() as cache:
                    output = _resolve(cache, lost)
                    self._copy(folder, [Path(cache) / "jars"])
                self._check(folder, output)
        except OSError as error:
            raise JarsMissingError(
                f"{self.description} cannot be put into {folder}: {error}.",
                hint="Set BACKFILL_JARS_DIR to a folder that has them.",
            ) from error

    def _check(self, folder: Path, output: str) -> None:
        lost = self.missing(folder)
        if not lost:
            return
        log = folder / "fetch.log"
        log.write_text(output, encoding="utf-8")
        raise JarsMissingError(
            f"{', '.join(lost)} with the checksums of {self.checksums.name} could not be fetched; {log} contains the reason.",
            hint="Check the network and this machine's package mirrors, or set BACKFILL_JARS_DIR to a folder that has them.",
        )

    def _copy(self, folder: Path, caches: Iterable[Path]) -> None:
        checksums = self.wanted()
        for cache in caches:
            for name in self.missing(folder):
                if _fits(cache / name, checksums[name]):
                    # Another process may fill the folder too, so each moves complete files into place.
                    with tempfile.TemporaryDirectory(dir=folder) as scratch:
                        shutil.copyfile(cache / name, Path(scratch, name))
                        Path(scratch, name).replace(folder / name)


SHIPPED = JarList("the jars of Delta and Kafka", CHECKSUMS)
"""Jars that a session needs in addition to those of pyspark."""


def coordinates(name: str) -> str:
    """Return `group:name:version` for the file name of a jar from Spark's resolver."""
    match = _NAMED.fullmatch(name)
    assert match is not None, name
    return ":".join(match.groups())


def _fits(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def _resolve(cache: str, names: Iterable[str]) -> str:
    """Start Spark once in a separate process, so that it fills `cache`; return its output."""
    packages = [coordinates(name) for name in names]
    code = f"from backfill_spark.jvm.session import resolve_packages; resolve_packages({cache!r}, {packages!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=RESOLVE_END_S
    )
    return done.stdout + done.stderr


def main(folder: Path) -> int:
    """Fill a folder for the setup of a clone; return the exit code."""
    try:
        SHIPPED.fill(folder)
    except JarsMissingError as error:
        print(f"setup: {error.message} {error.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
