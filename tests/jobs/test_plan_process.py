"""A driver process that only plans, as the operator starts it: the operator reads its termination message."""

import os
import subprocess
import sys
from pathlib import Path

from support.tables.jobs import make_orders, write_yaml

from backfill_core.errors import EXIT_COMPLETE, EXIT_USAGE
from backfill_operator.informer.parse import pod_of

ROWS = 500


EACH = """
import os, sys
from backfill_spark.__main__ import main
for file in sys.argv[1:]:
    sys.argv, os.environ["BACKFILL_TERMINATION_LOG"] = ["backfill-driver", "-f", file], file + ".log"
    code = main()
    print("exit code", code)
sys.exit(code)
"""


def planned(tmp_path, *files):
    """Plan each job in one process, whose Java starts once; return exit codes, and the pods as the operator would see them."""
    given = {
        "BACKFILL_MODE": "plan",
        "BACKFILL_CORES": "1",
        "BACKFILL_MEMORY": "1g",
        "BACKFILL_STATE_DIR": str(tmp_path / "state"),
    }
    done = subprocess.run(
        [sys.executable, "-c", EACH, *map(str, files)],
        env=os.environ | given, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    codes = [int(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("exit code ")]
    assert codes[-1:] == [done.returncode], done.stderr
    pods = []
    for file, code in zip(files, codes, strict=True):
        terminated = {"exitCode": code, "message": Path(f"{file}.log").read_text()}
        statuses = [{"name": "driver", "state": {"terminated": terminated}}]
        pods.append(pod_of({"status": {"containerStatuses": statuses}}))
    return codes, pods


class TestAPlanProcess:
    def test_a_plan_process_leaves_a_termination_message(self, spark, tmp_path):
        """The operator gets only this message: a plan, or a reason to show, and an exit code."""
        source = str(tmp_path / "source")
        make_orders(spark, source, ROWS, files=2)
        file = write_yaml(tmp_path / "job.yaml", source, str(tmp_path / "target"), approval="Manual")

        without = write_yaml(tmp_path / "without.yaml", str(tmp_path / "nothing"), str(tmp_path / "target"))

        codes, (pod, failed) = planned(tmp_path, file, without)

        assert (codes[0], pod.phase, pod.ending.outcome) == (EXIT_COMPLETE, "Succeeded", "Planned")
        assert (pod.ending.plan.rows, pod.ending.plan.files, pod.ending.plan.change_feed) == (ROWS, 2, True)
        assert not (tmp_path / "target").exists()
        assert (failed.phase, failed.exit_code, failed.ending.outcome) == ("Failed", codes[1], "Failed")
        assert failed.ending.reason == "SourceNotFound"
        assert codes[1] not in (EXIT_COMPLETE, EXIT_USAGE)
