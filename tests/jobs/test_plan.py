"""Contents of a plan, before the first write."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.tables.jobs import job, make_kind, make_orders, write_yaml

from backfill_core.errors import InvalidSpecError, InvalidTransformError, KeyInvalidError, SourceNotFoundError
from backfill_spark.driver.attempt import run_driver
from backfill_spark.driver.plan import plan_job
from backfill_spark.settings import DriverSettings

ROWS = 3000


@pytest.fixture
def plan(spark, tmp_path):
    """Plan a job over a table of orders. The target's folder must stay unchanged."""
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    make_orders(spark, source, ROWS, files=3)

    def run(check_unique=False, **spec):
        before = sorted(path for path in tmp_path.rglob("*"))
        try:
            return plan_job(
                job(source, target, **spec),
                settings=DriverSettings(cores=2), check_unique=check_unique, spark=spark,
            )  # fmt: skip
        finally:
            assert sorted(path for path in tmp_path.rglob("*")) == before, "a plan wrote something"

    run.source, run.target = source, target
    return run


def reasons(plan):
    return {warning.reason for warning in plan.warnings}


class TestAPlan:
    """A plan has facts of the table, an estimate, and warnings."""

    def test_a_plan_counts_the_rows_to_read(self, plan):
        """A user decides by these numbers whether to run."""
        planned = plan()

        assert (planned.rows, planned.files, planned.version, planned.target_exists) == (ROWS, 3, 0, False)
        assert planned.bytes == sum(file.stat().st_size for file in Path(plan.source).glob("*.parquet"))
        assert planned.splits >= 1
        assert planned.key_columns == ("id",)
        assert planned.key_nulls == 0
        assert planned.key_unique is None
        assert planned.change_feed
        assert planned.estimated_seconds_low <= planned.estimated_seconds <= planned.estimated_seconds_high

    def test_a_plan_names_the_expression_that_cannot_compute_a_row(self, plan):
        """A run would fail, too. The row is not among the first ones."""
        with pytest.raises(InvalidTransformError, match=r"spec\.transform\.select\[1\] = .* DIVIDE_BY_ZERO"):
            plan(transform={"select": ["id", "100 / (id - 500) AS x"]})

    def test_a_plan_shows_the_layout_of_the_target(self, spark, plan, tmp_path):
        """Before, a partitioned source silently got an unpartitioned target, and an Upsert deletion vectors (faults U10, U16)."""
        source, path = str(tmp_path / "parts"), str(tmp_path / "other")
        make_kind(spark, source, "partitioned")

        def planned(**target):
            settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
            return plan_job(job(source, path, target=target), settings=settings, spark=spark)

        flat, parted = planned(), planned(partitionBy=["part"], properties={"delta.enableDeletionVectors": "false"})
        (warning,) = (warning for warning in flat.warnings if warning.reason == "PartitionsLeftOut")

        assert flat.target.columns == "id bigint, part bigint, name string"
        assert (flat.target.partition_by, flat.target.reader_features) == ((), ("deletionVectors",))
        assert warning.hint == "Set partitionBy: [part] of the target to keep them."
        assert "source by part, target by no column" in flat.ways[0].reason
        assert (parted.target.partition_by, parted.target.reader_features) == (("part",), ())
        assert "PartitionsLeftOut" not in reasons(parted)

    @pytest.mark.parametrize(
        ("spec", "idle"),
        [
            ({"executor": {"instances": 2}, "target": {"writeMode": "Append"}, "source": {"key": []}}, True),
            ({"target": {"writeMode": "Append"}, "source": {"key": []}}, False),
            ({"executor": {"instances": 2}}, False),
            (
                {
                    "executor": {"instances": 2}, "target": {"writeMode": "Append", "partitionBy": ["part"]},
                    "source": {"key": []}, "transform": {"select": ["id", "id % 3 AS part"]},
                },
                False,
            ),
        ],
        ids=["copied files", "no executors", "merged changes", "decoded rows"],
    )  # fmt: skip
    def test_a_plan_warns_that_executors_would_be_idle(self, plan, spec, idle):
        """The driver copies files. With two executors running, a copy by https took three times as long (fault K1)."""
        assert ("ExecutorsIdle" in reasons(plan(**spec))) == idle

    def test_a_plan_counts_live_rows(self, spark, plan):
        """Deleted rows are still in the files, and are not copied."""
        spark.sql(f"ALTER TABLE delta.`{plan.source}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
        spark.sql(f"DELETE FROM delta.`{plan.source}` WHERE id < 100")

        assert plan().rows == ROWS - 100

    def test_a_plan_proves_the_key_on_request(self, plan):
        """The check costs a scan, so a plan makes it only on request."""
        assert plan(check_unique=True).key_unique is True

    def test_a_plan_warns_of_a_doubled_key(self, plan):
        """A plan only warns; a run refuses the key."""
        planned = plan(check_unique=True, source={"key": ["customer"]})

        assert planned.key_unique is False
        assert "KeyNotUnique" in reasons(planned)

    def test_a_plan_includes_a_limit_in_its_estimate(self, plan):
        """The limit, not the machine, determines the duration of a limited copy."""
        planned = plan(throttle={"rowsPerSecond": 10}, verify="Final")
        times = {step.name: step.seconds for step in planned.steps}

        assert times["Copy"] == ROWS / 10
        # The whole job is more than its copy: each step that takes time is in the estimate.
        assert list(times) == ["Start", "Copy", "KeyProof", "CatchUp", "Receipt"]
        assert planned.estimated_seconds == sum(times.values())
        assert times["KeyProof"] > 0 < times["Receipt"]

    def test_a_plan_warns_that_a_limit_of_zero_holds_history(self, plan):
        """A job that never begins must not be a surprise."""
        assert "HistoryHeld" in reasons(plan(throttle={"rowsPerSecond": 0}))

    def test_a_plan_warns_of_a_short_retention(self, spark, plan):
        """A copy that outlives the source's files fails after hours."""
        spark.sql(
            f"ALTER TABLE delta.`{plan.source}` SET TBLPROPERTIES ("
            "'delta.deletedFileRetentionDuration' = 'interval 1 second')"
        )
        planned = plan()

        assert planned.retention_seconds == 1
        assert "RetentionShort" in reasons(planned)

    def test_a_plan_warns_of_a_missing_change_feed(self, spark, plan, tmp_path):
        """Without it the job ends at the first update."""
        spark.range(10).write.format("delta").save(str(tmp_path / "plain"))

        assert "NoChangeFeed" in reasons(plan(source={"path": str(tmp_path / "plain")}))

    def test_a_plan_of_a_strategy_without_a_change_feed_needs_none(self, spark, plan, tmp_path):
        """A Replica ships updates and deletes of any table: they do not end the job (fault U8)."""
        spark.range(10).write.format("delta").save(str(tmp_path / "plain"))

        planned = plan(source={"path": str(tmp_path / "plain")}, strategy={"type": "Replica"})

        assert ("NoChangeFeed" in reasons(planned), planned.change_feed) == (False, None)

    def test_a_plan_of_an_empty_source_counts_no_rows(self, spark, plan, tmp_path):
        """A division by its size must not end the plan."""
        make_orders(spark, str(tmp_path / "empty"), 0, files=1)
        planned = plan(source={"path": str(tmp_path / "empty")})

        assert (planned.rows, planned.splits) == (0, 0)

    @pytest.mark.parametrize(
        ("spec", "error"),
        [
            ({"source": {"path": "/nowhere"}}, SourceNotFoundError),
            ({"source": {"key": ["nope"]}}, KeyInvalidError),
        ],
    )
    def test_a_plan_refuses_a_spec_that_a_run_would_refuse(self, plan, spec, error):
        """A plan that passes before a run that fails is worse than no plan."""
        with pytest.raises(error):
            plan(**spec)


class TestAPlanOfAJobThatHasEnded:
    """A run would read nothing, so a prediction of a full copy is wrong (fault U11)."""

    def test_a_plan_of_an_ended_job_says_that_a_run_does_nothing(self, spark, tmp_path):
        """It refuses the specs that a run would refuse."""
        make_orders(spark, str(tmp_path / "s"), 100, files=2)
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        ended = job(str(tmp_path / "s"), str(tmp_path / "t"), refresh={"schedule": "0 2 * * *"})
        assert run_driver(ended, settings=settings, spark=spark).outcome == "Complete"

        planned = plan_job(ended, settings=settings, spark=spark)

        assert (planned.rows, planned.estimated_seconds, planned.steps) == (0, 0, ())
        assert [(warning.reason, warning.message) for warning in planned.warnings] == [
            ("AlreadyComplete", "the job has ended at source version 0: a run does nothing."),
            (
                "ScheduleIgnored",
                "spec.refresh.schedule (0 2 * * * Etc/UTC) is ignored: only an operator on Kubernetes starts a refresh at these times.",
            ),
        ]
        with pytest.raises(InvalidSpecError, match=r"spec\.verify is Final"):
            plan_job(job(str(tmp_path / "s"), str(tmp_path / "t"), verify="Final"), settings=settings, spark=spark)


class TestAPlanOnTheCommandLine:
    """Each format has the same facts, with the names of the API."""

    def test_a_plan_is_printed_as_json_yaml_and_a_table(self, spark, tmp_path):
        """One process prints all three, because Spark's start takes most of the time."""
        make_orders(spark, str(tmp_path / "source"), ROWS, files=3)
        file = write_yaml(tmp_path / "job.yaml", str(tmp_path / "source"), str(tmp_path / "target"))
        # A mount of Hadoop, which exists only if the settings of the file and of the command line apply.
        mount = f"spark.hadoop.fs.viewfs.mounttable.lake.link./source=file://{tmp_path}/source"
        text = file.read_text().replace(f"path: {tmp_path}/source", "path: viewfs://lake/source")
        file.write_text(text + "  spark: {conf: {spark.driver.extraClassPath: /nowhere/a.jar}}\n")
        thrice = (
            "import sys\nfrom backfill_cli.__main__ import cli\nfor form in ('json', 'yaml', 'table'):\n"
            "    cli(['plan', '-f', sys.argv[1], '-o', form, '--conf', sys.argv[2]], standalone_mode=False)\n    print('---')"
        )
        environ = {"BACKFILL_STATE_DIR": str(tmp_path / "state"), "BACKFILL_CORES": "1", "BACKFILL_MEMORY": "1g"}
        done = subprocess.run(
            [sys.executable, "-c", thrice, str(file), mount],
            env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert 'on a cluster, the operator refuses spec.spark.conf["spark.driver.extraClassPath"]' in done.stderr
        as_json, as_yaml, as_table = done.stdout.split("---\n")[:3]

        for printed in (json.loads(as_json), yaml.safe_load(as_yaml)):
            facts = {name: printed[name] for name in ("rows", "files", "version", "keyColumns", "targetExists")}
            assert facts == {"rows": ROWS, "files": 3, "version": 0, "keyColumns": ["id"], "targetExists": False}
        assert "plan of default/job" in as_table
        assert "3,000 in 3 files" in as_table
        assert not (tmp_path / "target").exists()
