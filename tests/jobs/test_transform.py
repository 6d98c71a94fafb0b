"""Transforms in whole jobs: rows that cannot be computed, settings that apply, and values in messages."""

import pytest
from support.drivers.background import Running
from support.tables.jobs import job, make_orders
from support.tables.oracle import rows_in, seals
from support.tables.other_engine import insert, update

from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

GUARDED = {"select": ["id", "100 / amount AS share"], "where": "amount <> 0"}


@pytest.fixture
def orders(spark, tmp_path):
    """A source of a hundred orders, of which `id` 0 has the amount 0."""
    make_orders(spark, str(tmp_path / "s"), 100, files=2)
    return str(tmp_path / "s")


@pytest.fixture
def run(spark, tmp_path, orders):
    """Runs a job from it to `t`."""

    def run(observe=lambda _: None, stop=None, change=None, **spec):
        backfill = job(orders, str(tmp_path / "t"), **{"barrier": {"intervalMs": 200}, **spec})
        if change is not None:
            return changed(backfill, change)
        settings = DriverSettings(state_dir=tmp_path / "state", cores=2)
        return run_driver(backfill, settings=settings, observe=observe, spark=spark, stop=stop)

    def changed(backfill, change):
        """Change the source after its version is pinned, and before the first row is copied."""
        held = backfill.model_copy(update={"spec": backfill.spec.model_copy(update={"desired_state": "Paused"})})
        with Running(spark, held, tmp_path / "state") as running:
            running.fenced()
            change()
            running.until(lambda progress: progress.lag_versions)
            running.command("Resume")
            return running.outcome()

    return run


def once(act):
    """Return an observer that acts at the first progress after the fence."""
    done = []

    def observe(progress):
        if not done and progress.table_version is not None and progress.table_version >= 0:
            done.append(act())

    return observe


class TestWhereGuardsSelect:
    """The filter guards changes as it does the snapshot: a row that it drops is not computed."""

    @pytest.mark.parametrize("mode", ["Upsert", "Changelog"])
    def test_an_update_that_no_longer_passes_is_no_error(self, run, orders, tmp_path, mode):
        """The filter guards the expressions in changes, too."""

        def zero():
            update(orders, "id = 7", amount="0.0")
            insert(orders, "SELECT * REPLACE (5000 AS id, 0.0 AS amount) FROM now WHERE id = 8")

        outcome = run(change=zero, transform=GUARDED, target={"writeMode": mode}, verify="Final")

        assert (outcome.reason, outcome.receipt.equal, outcome.receipt.rows) == ("Complete", True, 98)
        if mode == "Upsert":
            assert rows_in(str(tmp_path / "t")) == 98


class TestARowThatCannotBeComputed:
    """Such a row ends the job as a mistake in the spec, without the values of the row."""

    def test_a_failing_row_in_history_is_found_before_the_first_write(self, run, tmp_path):
        """The row is among the first ones. The message of `raise_error` is not repeated."""
        outcome = run(transform={"select": ["id", "if(id < 50, raise_error(concat('secret ', note)), id) AS x"]})

        assert (outcome.reason, outcome.exit_code) == ("InvalidTransform", 21)
        assert "spec.transform.select[1]" in f"{outcome.message} {outcome.hint}" or "spec.transform" in outcome.message
        assert "secret " not in outcome.message.replace("'secret '", "")
        assert not (tmp_path / "t").exists()

    def test_a_failing_row_later_in_history_and_in_changes_ends_the_job(self, run, orders, tmp_path):
        """The seventieth row fails first, and then an update."""
        late = run(transform={"select": ["id", "CAST(if(id = 70, note, '1') AS int) AS x"]})
        moved = run(change=lambda: update(orders, "id = 9", status="'private'"), name="second",
            target={"path": str(tmp_path / "u")},
            transform={"select": ["id", "coalesce(assert_true(status <> 'private', status), 1) AS x"]})  # fmt: skip

        assert (late.reason, moved.reason) == ("InvalidTransform", "InvalidTransform")
        assert "CAST_INVALID_INPUT (SQLSTATE 22018)" in late.message
        assert "USER_RAISED_EXCEPTION" in moved.message
        assert "private" not in moved.message


class TestWhatAnExpressionMeans:
    """The meaning belongs to the job: with another one, an attempt would compute the remaining rows differently."""

    def test_another_zone_is_another_job(self, run):
        """Half of the rows would be computed in another time zone."""
        zone = {"conf": {"spark.sql.session.timeZone": "Europe/Berlin"}}
        stop = StopSignal()
        stopped = run(once(lambda: stop.ask(force=True)), stop, throttle={"rowsPerSecond": 0})

        assert stopped.outcome == "Stopped"
        assert run(spark=zone).reason == "StateMismatch"

    def test_the_environment_is_no_part_of_sql(self, spark, tmp_path):
        """A spec must mean the same on each machine, and must not show secrets."""
        assert spark.conf.get("spark.sql.variable.substitute") == "false"
        assert spark.sql("SELECT '${env:HOME}'").first()[0] == "${env:HOME}"


class TestAKeyAmongRowsThatPass:
    """The key is proven once, on the rows of the target: rows that the filter drops double no key."""

    def test_only_rows_that_pass_count(self, run, orders, tmp_path):
        """A key must be unique in the target, not in the source."""
        insert(orders, "SELECT * REPLACE ('old' AS status) FROM now WHERE id = 7")
        insert(orders, "SELECT * REPLACE ('old' AS status, null AS id) FROM now WHERE id = 8")
        outcome = run(
            transform={"select": ["id", "customer + 0 AS customer"], "where": "status <> 'old'"}, verify="Final"
        )

        assert (outcome.reason, outcome.receipt.rows) == ("Complete", 100)
        assert all(seal.state["snapshot"]["keyProven"] for seal in seals(str(tmp_path / "t")))
