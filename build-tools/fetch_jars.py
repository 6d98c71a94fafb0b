"""Puts the Delta jars into a folder, once, and checks each against requirements/jars.sha256.

Spark's own package resolver fetches them (from wherever this machine's package caches and mirrors are set up to
look), with what pyspark ships already left out: 7 jars, 13 MB.
"""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(folder: Path) -> int:
    wanted = dict(reversed(line.split()) for line in (ROOT / "requirements" / "jars.sha256").read_text().splitlines())
    folder.mkdir(parents=True, exist_ok=True)
    if missing(folder, wanted):
        fetch(folder, wanted)
    left = missing(folder, wanted)
    for name in left:
        print(f"error: {name} is missing or has another checksum than requirements/jars.sha256", file=sys.stderr)
    return 1 if left else 0


def missing(folder: Path, wanted: dict[str, str]) -> list[str]:
    def right(name: str) -> bool:
        path = folder / name
        return path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == wanted[name]

    return [name for name in wanted if not right(name)]


def fetch(folder: Path, wanted: dict[str, str]) -> None:
    from backfill_spark.session import open_session

    with tempfile.TemporaryDirectory() as cache:
        spark = open_session(
            app_name="fetch jars", cores=1, memory="512m", jars_dir=None, conf={"spark.jars.ivy": cache}
        )
        spark.stop()
        for name in wanted:
            source = Path(cache) / "jars" / name
            if source.exists():
                shutil.copyfile(source, folder / name)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
