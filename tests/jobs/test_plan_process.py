"""The driver's process that only plans, as the operator starts it: its termination message is what the operator reads."""

import os
import subprocess
import sys

from support.tables.jobs import make_orders, write_yaml

from backfill_core.errors import EXIT_COMPLETE, EXIT_USAGE
from backfill_operator.informer.parse import pod_of

ROWS = 500


def planned(tmp_path, file, **environ):
    """Run the process; return its exit code and the pod as the operator would see it."""
    log = tmp_path / "termination-log"
    given = {
        "BACKFILL_MODE": "plan",
        "BACKFILL_TERMINATION_LOG": str(log),
        "BACKFILL_CORES": "1",
        "BACKFILL_MEMORY": "1g",
    }
    given |= {"BACKFILL_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "backfill_spark", "-f", str(file)],
        env=os.environ | given | environ, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert log.is_file(), done.stderr
    terminated = {"exitCode": done.returncode, "message": log.read_text()}
    return done.returncode, pod_of(
        {"status": {"containerStatuses": [{"name": "driver", "state": {"terminated": terminated}}]}}
    )


class TestAPlanProcess:
    def test_leaves_a_plan_that_the_operator_reads(self, spark, tmp_path):
        """Between the two there is nothing but this text."""
        source = str(tmp_path / "source")
        make_orders(spark, source, ROWS, files=2)
        file = write_yaml(tmp_path / "job.yaml", source, str(tmp_path / "target"), approval="Manual")

        code, pod = planned(tmp_path, file)

        assert (code, pod.phase, pod.ending.outcome) == (EXIT_COMPLETE, "Succeeded", "Planned")
        assert (pod.ending.plan.rows, pod.ending.plan.files, pod.ending.plan.change_feed) == (ROWS, 2, True)
        assert not (tmp_path / "target").exists()

    def test_that_finds_no_source_says_so(self, spark, tmp_path):
        """The reason is the operator's to show, and the exit code its to judge."""
        file = write_yaml(tmp_path / "job.yaml", str(tmp_path / "nothing"), str(tmp_path / "target"))

        code, pod = planned(tmp_path, file)

        assert (pod.phase, pod.exit_code, pod.ending.outcome) == ("Failed", code, "Failed")
        assert pod.ending.reason == "SourceNotFound"
        assert code not in (EXIT_COMPLETE, EXIT_USAGE)
