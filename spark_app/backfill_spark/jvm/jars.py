"""The jars of Delta and of Spark's Kafka connector, each with the checksum that this release was tested with.

Where they come from, in this order: the folder that a setting names, an image that has them among Spark's own, the clone
that was set up, a folder in the user's cache. The last one is filled once, from a package cache that an earlier Spark left in the home folder or by
Spark's own package resolver, which looks wherever this machine's mirrors are set up; what that says stays in a log.
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

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
_HERE = Path(__file__).parent
_CLONE = Path(__file__).parents[3] / "requirements" / "jars.sha256"
CHECKSUMS = _CLONE if _CLONE.is_file() else _HERE / "jars.sha256"
"""Of a clone; a wheel holds a copy."""

OF_THE_CLONE = _CLONE.parent.parent / ".cache" / "jars"
"""Where the setup of a clone puts them, and an archive of classes."""

RESOLVE_END_S = 600
_NAMED = re.compile(r"(?P<group>[^_]+)_(?P<name>.+?)-(?P<version>\d+\.\d[^_]*)\.jar")
"""How Spark's resolver names a jar; the version starts at the first dotted number: `kafka-0-10_2.13-4.2.0`, `jni-1.5.6-4`."""


@dataclass(frozen=True, slots=True)
class JarList:
    """Jars that belong together, and all that they need beside a Java."""

    words: str
    """What they are, for people."""

    checksums: Path
    """File with the checksum and the name of one jar a line."""

    def wanted(self) -> dict[str, str]:
        """Return the checksum of each jar by its name."""
        return {name: digest for digest, name in map(str.split, self.checksums.read_text("utf-8").splitlines())}

    def missing(self, folder: Path) -> list[str]:
        """Return the names of the jars that a folder lacks, or has with another content."""
        return [name for name, digest in self.wanted().items() if not _fits(folder / name, digest)]

    def fill(self, folder: Path, caches: Iterable[Path] | None = None) -> None:
        """Put the jars into a folder; does nothing when they are there.

        Args:
            folder: Made when it is missing; other jars in it are removed, since all of them go onto the class path.
            caches: Folders of jars to copy from; default: those of earlier Sparks in the home folder.

        Raises:
            JarsMissingError: some could not be had, or have another checksum.
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
                print(f"fetching {self.words} into {folder}, once", file=sys.stderr)
                with tempfile.TemporaryDirectory() as cache:
                    said = _resolve(cache, lost)
                    self._copy(folder, [Path(cache) / "jars"])
                self._refuse(folder, said)
        except OSError as error:
            raise JarsMissingError(
                f"{self.words} cannot be put into {folder}: {error}.",
                hint="Set BACKFILL_JARS_DIR to a folder that has them.",
            ) from error

    def _refuse(self, folder: Path, said: str) -> None:
        lost = self.missing(folder)
        if not lost:
            return
        log = folder / "fetch.log"
        log.write_text(said, encoding="utf-8")
        raise JarsMissingError(
            f"{', '.join(lost)} with the checksums of {self.checksums.name} could not be fetched; {log} says why.",
            hint="Check the network and this machine's package mirrors, or set BACKFILL_JARS_DIR to a folder that has them.",
        )

    def _copy(self, folder: Path, caches: Iterable[Path]) -> None:
        wanted = self.wanted()
        for cache in caches:
            for name in self.missing(folder):
                if _fits(cache / name, wanted[name]):
                    # Another process may be at it too: each puts a whole file in its place.
                    with tempfile.TemporaryDirectory(dir=folder) as scratch:
                        shutil.copyfile(cache / name, Path(scratch, name))
                        Path(scratch, name).replace(folder / name)


SHIPPED = JarList("the jars of Delta and Kafka", CHECKSUMS)
"""What a session needs beside pyspark's own jars."""


def coordinates(name: str) -> str:
    """Return `group:name:version` of a jar as Spark's resolver names it."""
    found = _NAMED.fullmatch(name)
    assert found is not None, name
    return ":".join(found.groups())


def _fits(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def _resolve(cache: str, names: Iterable[str]) -> str:
    """Start Spark once in a process of its own, so that it fills `cache`; return its output."""
    wanted = [coordinates(name) for name in names]
    code = f"from backfill_spark.jvm.session import resolve_packages; resolve_packages({cache!r}, {wanted!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=RESOLVE_END_S
    )
    return done.stdout + done.stderr


def main(folder: Path) -> int:
    """Fill a folder, for the setup of a clone; return the exit code."""
    try:
        SHIPPED.fill(folder)
    except JarsMissingError as error:
        print(f"setup: {error.message} {error.hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
