"""Measure a receipt, a repair, an orphan clean-up and the shipping of a version, with lists of many files.

    python tests/benchmarks/alone/million_compared.py [--only receipt,repair,orphans,shipping] [--sizes 10000,100000,1000000]

The files do not exist. The store reports the digest of each copy, as S3 does. Each figure is of a separate process: seconds of
processor time of Python and of Java, and the growth of the memory of Python. `receipt` and `repair` exclude the pin of the source.
"""

import argparse
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from support.tables.long_listing import DIGEST, REAL_FILES, add, commit, make_copy, make_listing  # noqa: E402

SIZES, PARTS = "10000,100000,1000000", "receipt,repair,orphans,shipping"
STAGED, VERSIONS = 2_000, 20


class Meter:
    """Processor time and memory of this process and of its Java, since the start of the meter."""

    def __init__(self):
        """Start."""
        self._java, self._python = java_s(os.getpid()), time.process_time()
        self._mib = _peak_mib()

    def figures(self):
        """Return the figures since the start."""
        return {
            "python_s": round(time.process_time() - self._python, 2),
            "java_s": round(java_s(os.getpid()) - self._java, 2),
            "python_mib": round(_peak_mib() - self._mib),
        }


def java_s(pid):
    """Return the processor time of all processes of Java below a process."""
    seconds = 0.0
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        name, fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)
        ticks = map(int, fields.split()[11:13])
        seconds += java_s(child) + (sum(ticks) / os.sysconf("SC_CLK_TCK") if name.endswith("(java") else 0.0)
    return seconds


def _peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def receipt(spark, job, target):
    """Prove all copies by the digests that the store reports."""
    from backfill_spark.ports.compared import FilesOfVersion
    from backfill_spark.receipts import file_digests

    class ReportingReader(file_digests.ByteReader):
        """A store that reports the size and the digest of each file."""

        def reported(self, paths, *, check):
            return {path: file_digests.CopiedBytes(size, DIGEST) for path in paths}

    size = max(file.stat().st_size for file in Path(job.tables.source.path).glob("day=*/*.parquet"))
    file_digests.ByteReader = ReportingReader
    files = FilesOfVersion(job.tables.source, job.tables.source.version)
    meter = Meter()
    proof = file_digests.FileProof.of(job.tables, files, target)
    proven = proof.proven(lambda: None)
    assert (proven.wrong, len(proven.source_paths)) == ((), len(job.tables.opened.table.rows) - REAL_FILES)
    proof.rest(proven)
    return meter.figures()


def repair(spark, job, target):
    """Find the files that a repair replaces; one of them is damaged."""
    from backfill_spark.ports.compared import FilesOfVersion
    from backfill_spark.repair.file_differences import FilesOfTarget, replaced

    files = FilesOfVersion(job.tables.source, job.tables.source.version)
    meter = Meter()
    existing = FilesOfTarget(spark, job.tables.sink.path, target)
    compared = SimpleNamespace(source=SimpleNamespace(files=files))
    step = replaced(job.tables, compared, existing, frozenset({existing.files[0].path}), ships=True)
    assert len(step.copies) == REAL_FILES + 1
    return meter.figures()


def orphans(spark, job, target):
    """Remove the files that an attempt staged and never committed."""
    sink = job.tables.sink
    folder = Path(sink.path, sink.staging.rsplit("/", 1)[-1], "a1", "s2")
    folder.mkdir(parents=True)
    for at in range(STAGED):
        (folder / f"{at}.parquet").touch()
    for logged in Path(sink.path, "_delta_log").glob("*.json"):
        os.utime(logged, (0, 0))  # older than the staged files, so no commit needs to be read
    meter = Meter()
    assert sink.remove_orphans(2) == 1
    return meter.figures()


def shipping(spark, job, target):
    """Follow the target's own commits of ten files, as a job does that ships one version after the other."""
    from backfill_spark.delta.log import newest_version
    from backfill_spark.log_shipping.target_log import TargetLog

    log, path = TargetLog(spark, job.tables.sink.path), job.tables.sink.path
    log.newest()
    meter = Meter()
    for version in range(VERSIONS):
        commit(path, (add(10**7 + 10 * version + at, 1000) for at in range(10)))
        log.newest()
    assert newest_version(spark, path).position == target + VERSIONS
    return {name: round(value / VERSIONS, 3) for name, value in meter.figures().items()}


def measure(part, files, folder):
    """Measure a part in this process."""
    from support.tables.jobs import job

    from backfill_spark.delta.log import newest_version
    from backfill_spark.driver.job_context import JobContext
    from backfill_spark.jvm.session import open_session
    from backfill_spark.settings import DriverSettings

    spark = open_session(app_name="compared", memory="3g", jars_dir=Path(os.environ["BACKFILL_JARS_DIR"]))
    source, target = folder / f"source{files}", folder / f"target{files}-{part}"
    if not source.exists():
        make_listing(str(source), files)
    shutil.rmtree(target, ignore_errors=True)
    backfill = job(str(source), str(target), source={"key": []}, strategy={"type": "Replica"})
    with (
        JobContext.open(backfill, DriverSettings(), command="plan", spark=spark) as context,
        context.open_job() as opened,
    ):
        staging = opened.tables.sink.staging.rsplit("/", 1)[-1]
        make_copy(str(source), str(target), files, f"{staging}/a1/s1")
        figures = globals()[part](spark, opened, int(newest_version(spark, str(target)).position))
    print(json.dumps(figures), flush=True)
    spark.stop()
    shutil.rmtree(target)


def main():
    """Measure each part at each size, and print the exponent of the growth between the last two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=PARTS)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--folder", type=Path, help="where tables are made; a later run uses the sources again")
    parser.add_argument("--measure", nargs=2, metavar=("PART", "FILES"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure(args.measure[0], int(args.measure[1]), args.folder)
    with tempfile.TemporaryDirectory(prefix="backfill-compared-") as scratch:
        for part in args.only.split(","):
            seconds = []
            for files in args.sizes.split(","):
                command = [sys.executable, __file__, "--folder", str(args.folder or scratch), "--measure", part, files]
                output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                figures = json.loads(output.splitlines()[-1])
                seconds.append((int(files), figures["python_s"] + figures["java_s"]))
                print(part, files, json.dumps(figures), flush=True)
            if len(seconds) > 1:
                (before, before_s), (after, after_s) = seconds[-2:]
                print(part, "exponent", round(math.log(after_s / before_s) / math.log(after / before), 2), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
