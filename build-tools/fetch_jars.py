"""Put Delta's jars into a folder, each with the checksum that requirements/jars.sha256 says.

They come from a package cache that an earlier Spark left in the home folder, or, once, through Spark's own package
resolver, which looks wherever this machine's mirrors are set up. What pyspark ships itself is left out: 7 jars, 13 MB.
"""

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

CHECKSUMS = Path(__file__).parent.parent / "requirements" / "jars.sha256"


def main(folder: Path) -> int:
    wanted = {name: digest for digest, name in map(str.split, CHECKSUMS.read_text().splitlines())}
    folder.mkdir(parents=True, exist_ok=True)
    for jar in folder.glob("*.jar"):
        if jar.name not in wanted:  # every jar of the folder goes onto the class path
            jar.unlink()
    copy(folder, wanted, Path.home().glob(".ivy2*/jars"))
    if missing(folder, wanted):
        with tempfile.TemporaryDirectory() as cache:
            resolve(cache)
            copy(folder, wanted, [Path(cache) / "jars"])
    for name in missing(folder, wanted):
        print(f"setup: {name} with the checksum of {CHECKSUMS.name} was not found", file=sys.stderr)
    return 1 if missing(folder, wanted) else 0


def missing(folder: Path, wanted: dict[str, str]) -> list[str]:
    return [name for name, digest in wanted.items() if not fits(folder / name, digest)]


def fits(path: Path, digest: str) -> bool:
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest


def copy(folder: Path, wanted: dict[str, str], caches: Iterable[Path]) -> None:
    for cache in caches:
        for name in missing(folder, wanted):
            if fits(cache / name, wanted[name]):
                shutil.copyfile(cache / name, folder / name)


def resolve(cache: str) -> None:
    """Start Spark once, so that it fills `cache`."""
    from backfill_spark.session import open_session

    spark = open_session(app_name="fetch jars", cores=1, memory="512m", jars_dir=None, conf={"spark.jars.ivy": cache})
    spark.stop()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
