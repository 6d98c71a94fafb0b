"""Measure the time from the fence of a driver that has just started to its first commit with rows, for files of 1,000,000 rows.

    python tests/benchmarks/alone/first_rows.py --runs 5 [--beside ../other-checkout] [--kinds decoded,computed]

Each run has a new process, a new Java and a new target. Two checkouts take turns. Figures are medians; the bar is 2 s.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from support.tables.jobs import write_yaml  # noqa: E402
from support.tables.oracle import seals  # noqa: E402

from backfill_spark.jvm.session import open_session  # noqa: E402

FILE_ROWS, FILES = 1_000_000, 6
BAR_S, LIMIT_S = 2.0, 120
COLUMNS = ["id", "customer", "amount", "ts", "sku", "note", "status"]
SELECTS = {
    "decoded": ["id", "customer", "amount", *(f"concat({name}, '') AS {name}" for name in COLUMNS[4:])],
    "computed": ["upper(status) AS status" if name == "status" else name for name in COLUMNS],
    "copied": COLUMNS,
    "arrangement": COLUMNS,
    "chain": COLUMNS,
}
"""Transforms: three of six columns are computed and their files decoded, or one of seven is, or none."""

STRATEGIES = {"arrangement": "Arrangement", "chain": "RearrangedChain"}
"""Strategies of the kinds that are no Snapshot."""


def make_source(path):
    """Write a table whose files have a million rows each."""
    jars = Path(os.environ.get("BACKFILL_JARS_DIR", str(ROOT / ".cache" / "jars")))
    spark = open_session(app_name="source", memory="3g", jars_dir=jars)
    spark.range(0, FILES * FILE_ROWS, 1, FILES).selectExpr(
        "id", "id * 7919 % 1000003 AS customer", "rand(7) * 1000 AS amount",
        "timestamp_seconds(1700000000 + id % 10000000) AS ts", "concat('sku-', id % 5000) AS sku",
        "md5(cast(id AS string)) AS note",
        "element_at(array('new', 'paid', 'sent', 'done'), cast(id % 4 + 1 AS int)) AS status",
    ).write.format("delta").save(path)  # fmt: skip
    spark.stop()


def first_rows(root, scratch, source, kind):
    """Start a driver, and return the seconds from its start to the fence, and from the fence to the first rows."""
    target, state = scratch / "target", scratch / "state"
    for folder in (target, state):
        shutil.rmtree(folder, ignore_errors=True)
    strategy = {"type": STRATEGIES.get(kind, "Snapshot")}
    transform = {"select": SELECTS[kind]}
    file = write_yaml(scratch / "job.yaml", source, str(target), name="first", transform=transform, strategy=strategy)
    path = os.pathsep.join(str(root.resolve() / part) for part in ("crds", "operator", "spark_app"))
    jars = os.environ.get("BACKFILL_JARS_DIR", str(ROOT / ".cache" / "jars"))
    settings = {"STATE_DIR": str(state), "CHECK_UNIQUE": "false", "JARS_DIR": jars}
    env = {**os.environ, "PYTHONPATH": path, **{f"BACKFILL_{name}": value for name, value in settings.items()}}
    began_s = time.time()
    process = subprocess.Popen(
        [sys.executable, "-m", "backfill_spark", "-f", str(file)],
        stdout=subprocess.DEVNULL, env=env, start_new_session=True,
    )  # fmt: skip
    try:
        fence, rows = commits(target)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return fence - began_s, rows - fence


def commits(target):
    """Wait for the first rows; return the times at which the files of the fence and of their commit were written."""
    deadline, pause = time.monotonic() + LIMIT_S, threading.Event()
    while time.monotonic() < deadline:
        made = seals(str(target)) if (target / "_delta_log").is_dir() else []
        if any(seal.state["rowsDone"] for seal in made):
            first = next(seal for seal in made if seal.state["rowsDone"])
            return tuple(
                (target / "_delta_log" / f"{seal.version:020d}.json").stat().st_mtime for seal in (made[0], first)
            )
        pause.wait(0.02)
    raise TimeoutError


def main():
    """Measure each kind of transform with each checkout in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--kinds", default=",".join(SELECTS))
    parser.add_argument("--beside", type=Path, help="another checkout, measured in turn with this one")
    parser.add_argument("--source", type=Path, help="a folder for the source, which a later run uses again")
    args = parser.parse_args()
    kinds, roots = args.kinds.split(","), [root for root in (args.beside, ROOT) if root]
    with tempfile.TemporaryDirectory(prefix="backfill-first-") as scratch:
        source = args.source or Path(scratch, "source")
        if not source.exists():
            make_source(str(source))
        taken = {(kind, root): [] for kind in kinds for root in roots}
        for _ in range(args.runs):
            for (kind, root), runs in taken.items():
                runs.append(first_rows(root, Path(scratch), str(source), kind))
                print(kind, root, *(f"{seconds:.2f}" for seconds in runs[-1]), flush=True)
    figures = {
        f"{kind} {root}": {
            "start_s": round(statistics.median(start for start, _ in runs), 2),
            "first_rows_s": round(statistics.median(rows for _, rows in runs), 2),
        }
        for (kind, root), runs in taken.items()
    }
    print(json.dumps(figures, indent=2))
    met = all(figures[f"{kind} {ROOT}"]["first_rows_s"] <= BAR_S for kind in kinds)
    print(f"the bar {'is met' if met else 'is NOT met'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
