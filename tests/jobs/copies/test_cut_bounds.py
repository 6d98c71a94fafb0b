"""Statistics of other writers: bounds that are imprecise, at the end of a type, or wrong.

Rows are right, or the job ends by name.
"""

import json
from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable, QueryBuilder
from support.logs_of_others.rewritten import rewrite_log, with_bounds
from support.tables.jobs import job

from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.settings import DriverSettings

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = {"Europe/Paris": (1910, "+00:09", 561), "Africa/Monrovia": (1971, "-00:44", -2670)}
"""Year, the offset as Delta 3.2 and 3.3 logged it, and the true one in seconds."""

STRATEGIES = {
    "Replica": {"strategy": {"type": "Replica"}, "source": {"key": []}},
    "Snapshot": {"strategy": {"type": "Snapshot"}},
    "Arrangement": {"strategy": {"type": "Arrangement", "arrangement": {"orderBy": [{"column": "v"}], "chunkRows": 4}}},
    "newest first": {
        "strategy": {
            "type": "Arrangement",
            "arrangement": {"orderBy": [{"column": "v", "direction": "Descending"}], "chunkRows": 4},
        }
    },
}
"""Strategies for a table with the key `id` and the values `v`."""


@pytest.fixture
def run(spark, tmp_path):
    """Run a job, and stop it when it has more rows than its source: it would never end."""

    def go(strategy, rows, /, **spec):
        stop = StopSignal()

        def check(progress):
            if progress.rows_done > rows:
                stop.ask(force=False)

        spec = {"verify": "Final", "barrier": {"intervalMs": 100}, **STRATEGIES[strategy], **spec}
        backfill = job(str(tmp_path / "s"), str(tmp_path / "t"), **spec)
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        return run_driver(backfill, settings=settings, spark=spark, observe=check, stop=stop)

    return go


@pytest.fixture
def make(spark, tmp_path):
    """Make a table of three files, each with the rows of one query."""

    def go(*queries):
        for query in queries:
            spark.sql(query).coalesce(1).write.format("delta").mode("append").save(str(tmp_path / "s"))

    return go


def ids(path):
    """Return the ids of a table, sorted, as delta-rs reads them."""
    result = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT id FROM t").read_all()
    return sorted(result["id"].to_pylist())


class TestAnOffsetWithoutItsSeconds:
    """Delta 3.2 and 3.3 logged `+00:09` for `+00:09:21`: each bound is up to 59 s off (fault B2)."""

    @pytest.fixture(params=ZONES)
    def moments(self, request, spark, make, tmp_path):
        """Thirty timestamps in three files, in a session of the zone: ten seconds of a month each."""
        year, logged, offset_s = ZONES[request.param]
        clocks = [
            datetime(year, month, 1, 10, tzinfo=UTC) + timedelta(seconds=s) for month in (1, 2, 3) for s in range(10)
        ]
        moments = [clock - timedelta(seconds=offset_s) for clock in clocks]
        micros = [(instant - EPOCH) // timedelta(microseconds=1) for instant in moments]
        for first in (0, 10, 20):
            make(
                " UNION ALL ".join(
                    f"SELECT {number}L AS id, timestamp_micros({micros[number]}L) AS v"
                    for number in range(first, first + 10)
                )
            )

        def cut(add):
            first = json.loads(add["stats"])["minValues"]["id"]
            low, high = (f"{clocks[at]:%Y-%m-%dT%H:%M:%S}.000{logged}" for at in (first, first + 9))
            with_bounds("v", low, high)(add)

        rewrite_log(spark, tmp_path / "s", cut)
        return moments

    @pytest.mark.parametrize("strategy", ["Replica", "Snapshot"])
    def test_a_filter_between_bound_and_value_is_right(self, tmp_path, moments, run, strategy):
        """The filters are in the middle of the values of the first file, and just above them."""
        for number, moment in enumerate([moments[4], moments[9] + timedelta(seconds=15)]):
            outcome = run(
                strategy, 30, name=f"job{number}", target={"path": str(tmp_path / f"t{number}")},
                transform={"where": f"v >= TIMESTAMP '{moment:%Y-%m-%d %H:%M:%S}+00:00'"},
            )  # fmt: skip

            assert (outcome.outcome, outcome.message) == ("Complete", "")
            assert ids(tmp_path / f"t{number}") == [at for at, value in enumerate(moments) if value >= moment]

    @pytest.mark.parametrize("strategy", ["Arrangement", "newest first"])
    def test_an_order_by_such_bounds_copies_each_row_once(self, tmp_path, moments, run, strategy):
        """An order that read by such bounds lost rows, or read them forever."""
        outcome = run(strategy, 30)

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert ids(tmp_path / "t") == [*range(30)]


class TestTheEndOfAType:
    """Values that are the last of their type, as in temporal tables (faults D11, D13)."""

    @pytest.mark.parametrize("strategy", ["Snapshot", "newest first"])
    @pytest.mark.parametrize(
        ("low", "high"),
        [
            ("TIMESTAMP '0001-01-01 00:00:00'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
            ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"),
            ("DATE '0001-01-01'", "DATE '9999-12-31'"),
            ("-9223372036854775808", "9223372036854775807"),
            (f"-{'9' * 20}.{'9' * 18}BD", f"{'9' * 20}.{'9' * 18}BD"),
        ],
        ids=["timestamp", "timestamp_ntz", "date", "long", "decimal"],
    )
    def test_each_row_at_the_end_of_a_type_is_copied(self, spark, make, tmp_path, run, strategy, low, high):
        """This holds without a filter, and with one that only the bounds decide."""
        make(
            f"SELECT id, {low} AS v FROM range(0, 10)",
            f"SELECT id, {high} AS v FROM range(10, 20)",
            f"SELECT id, if(id % 2 = 0, {low}, {high}) AS v FROM range(20, 30)",
        )
        outcome = run(strategy, 30, transform={"where": f"v >= {high}"})

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert ids(tmp_path / "t") == [*range(10, 20), *range(21, 30, 2)]


class TestWrongBounds:
    """The log excludes rows that a file has: no order by it is right, and none is needed to copy the rows."""

    @pytest.fixture
    def table(self, spark, make, tmp_path):
        """Three files of ten numbers; the statistics of the first one are those of the last one."""
        make(*(f"SELECT id, id AS v FROM range({first}, {first + 10})" for first in (0, 10, 20)))

        def wrong(add):
            if json.loads(add["stats"])["minValues"]["id"] == 0:
                with_bounds("v", 20, 29)(add)

        rewrite_log(spark, tmp_path / "s", wrong)

    @pytest.mark.parametrize("strategy", ["Replica", "Snapshot"])
    def test_a_copy_without_an_order_has_all_rows(self, tmp_path, table, run, strategy):
        """It uses no bounds."""
        outcome = run(strategy, 30)

        assert outcome.outcome == "Complete"
        assert ids(tmp_path / "t") == [*range(30)]

    @pytest.mark.parametrize("strategy", ["Arrangement", "newest first"])
    @pytest.mark.parametrize("chunk_rows", [4, 10])
    def test_an_order_by_wrong_bounds_ends_the_job_by_name(self, spark, table, run, strategy, chunk_rows):
        """Otherwise it would lose rows, or read them forever."""
        arrangement = STRATEGIES[strategy]["strategy"]["arrangement"] | {"chunkRows": chunk_rows}
        outcome = run(strategy, 30, strategy={"type": "Arrangement", "arrangement": arrangement})

        assert (outcome.outcome, outcome.reason) == ("Failed", "SourceDamaged")
        assert "exclude" in outcome.message
        assert "OPTIMIZE" in outcome.hint
