"""Copied files whose rows that fail the filter are hidden by deletion vectors, in whole jobs; delta-rs and Spark read the target."""

import hashlib
import json
from pathlib import Path
from urllib.parse import unquote

import pytest
from support.endings import assert_ending
from support.replica.pair import Pair
from support.tables.jobs import job
from support.tables.oracle import adds_of, seals, violations
from support.tables.other_engine import commit_actions

from backfill_spark.driver.plan import plan_job
from backfill_spark.repair.repair import repair_target
from backfill_spark.settings import DriverSettings

HIDDEN = {"filteredRows": "Hidden"}
VECTORS = "delta.enableDeletionVectors"

ODD = (
    "named_struct('a', if(id % 7 = 0, null, id % 5), 'b', named_struct('c d', concat('x', id % 3))) AS nested",
    "if(id % 11 = 0, null, timestamp_ntz'2024-03-31 02:30:00' + make_interval(0, 0, 0, 0, cast(id % 50 AS int))) AS local",
    "if(id % 13 = 0, null, cast(id AS decimal(38, 10)) / 3) AS amount",
    "CASE id % 6 WHEN 0 THEN double('NaN') WHEN 1 THEN double('-0.0') WHEN 2 THEN double('Infinity') WHEN 3 THEN NULL ELSE id / 2.0D END AS value",
    "if(id % 4 = 0, null, id % 4 = 1) AS flag",
    "cast(concat('k', id % 3) AS binary) AS bytes",
    "element_at(array('a', '', ' a', 'A', '\u1e9e', NULL), cast(id % 6 + 1 AS int)) AS text",
    "date'1582-10-01' + cast(id AS int) AS day",
)
"""Columns with values at which languages and libraries differ."""


@pytest.fixture
def pair(spark, tmp_path):
    """A source and a target."""
    return Pair(spark, tmp_path)


def make(pair, rows, *columns, files=4, group_rows=50, **options):
    """Make files of several row groups, in the order of `id`."""
    groups = {"parquet.block.size": "1", "parquet.block.row.count.limit": str(group_rows)}
    made = pair.spark.range(0, rows, 1, files).selectExpr("id", *columns)
    writer = made.write.format("delta").options(**groups).option(VECTORS, "true").options(**options)
    writer.save(pair.source)


def copies(pair):
    """Return the target's `add` actions of copied files, by the number of the file in the source; checks their bytes."""
    there = {path.rsplit("/", 1)[-1]: add for path, add in adds_of(pair.target).items()}
    found = {}
    for number, path in enumerate(sorted(adds_of(pair.source))):
        name = f"w-{hashlib.sha256(path.encode()).hexdigest()[:32]}-0.parquet"
        if name in there:
            add = there[name]
            assert Path(pair.target, add["path"]).read_bytes() == Path(pair.source, unquote(path)).read_bytes()
            found[number] = add
    return found


def hidden(add):
    """Return the number of rows that a file's vector hides."""
    return (add.get("deletionVector") or {}).get("cardinality", 0)


def data_files(commits):
    """Return the names of the data files that some commits add, without those that they also remove."""
    added = {action["add"]["path"] for commit in commits for action in commit if "add" in action}
    return added - {action["remove"]["path"] for commit in commits for action in commit if "remove" in action}


class TestRowsThatFail:
    """Readers of the target see exactly the rows for which the filter is true; the files are those of the source."""

    def test_the_filter_is_evaluated_for_visible_rows_only(self, spark, pair):
        """It may fail at a row that the source hides. At a visible row it ends the job, which names the filter."""
        make(pair, 200, "id % 100 AS value", files=2)
        pair.sql("DELETE FROM {t} WHERE value = 0")

        outcome = pair.run("INSERT INTO {t} VALUES (1000, 0)", target=HIDDEN, transform={"where": "100 / value > 1.2"})

        assert_ending(outcome, "InvalidTransform")
        assert "spec.transform.where = '100 / value > 1.2'" in outcome.message
        # 100 / value is 1.2 at 83.3
        assert [hidden(add) for add in copies(pair).values()] == [1 + 16] * 2
        view = "SELECT * FROM source WHERE value < 84"
        assert [text for seal in seals(pair.target) for text in violations(pair.source, pair.target, seal, view)] == []

    def test_each_commit_has_the_rows_that_pass(self, spark, pair):
        """NULL is no pass, tasks split files at row groups, and the source's own vectors stay in force, through live changes and RESTORE."""
        make(pair, 800, "if(id % 50 = 7, null, id % 10) AS value", "cast(id / 200 AS int) AS part")
        pair.sql("DELETE FROM {t} WHERE id % 100 = 31")
        spark.conf.set("spark.sql.files.maxPartitionBytes", "2000")
        where = "value > 0"

        first = pair.run(target=HIDDEN, transform={"where": where})
        copied, before = copies(pair), len(pair.commits())
        outcome = pair.run(
            "DELETE FROM {t} WHERE id % 100 = 44",
            "INSERT INTO {t} SELECT id, cast(id % 10 AS bigint), id FROM range(800, 900)",
            "UPDATE {t} SET value = 0 WHERE id IN (5, 6)",
            "DELETE FROM {t} WHERE part = 3",
            "RESTORE TABLE {t} TO VERSION AS OF 3",
            "OPTIMIZE {t}",
            target=HIDDEN,
            transform={"where": where},
            verify="Final",
        )
        spark.conf.unset("spark.sql.files.maxPartitionBytes")

        assert (first.reason, outcome.reason) == ("Stopped", "Stopped"), (first, outcome)
        # 20 zeros, 4 nulls and 2 deleted rows of 200 in each file
        assert [hidden(add) for add in copied.values()] == [26] * 4
        statistics = [json.loads(add["stats"]) for add in copied.values()]
        assert [(each["numRecords"], each["tightBounds"]) for each in statistics] == [(200, False)] * 4
        live = pair.commits()[before:]
        deleted = next(commit for commit in live if any("remove" in action for action in commit))
        assert data_files([deleted]) == set(), "a deleted row costs a vector, and no copy"
        view = f"SELECT * FROM source WHERE {where}"
        assert [text for seal in seals(pair.target) for text in violations(pair.source, pair.target, seal, view)] == []
        assert pair.equal(view)

    def test_the_filter_may_read_partition_renamed_and_left_out_columns(self, spark, pair):
        """Its columns need not be in the target, and the target may compute others."""
        columns = ("id % 3 AS part", "if(id % 8 = 3, null, concat('n', id % 20)) AS name", "id * 2 AS twice")
        make(pair, 60_000, *columns, files=2, group_rows=10_000, **{"delta.columnMapping.mode": "name"})
        pair.sql("ALTER TABLE {t} RENAME COLUMN name TO title", "DELETE FROM {t} WHERE id = 4")
        select = ["id", "part", "twice AS double_id", "upper(title) AS loud"]

        outcome = pair.run(
            "DELETE FROM {t} WHERE id = 5",
            target=HIDDEN | {"publish": "WhenVerified"},
            transform={"select": select, "where": "title <> 'n9' AND NOT (part = 2 AND id < 1000)"},
        )

        assert outcome.reason == "Stopped", outcome
        assert sum(hidden(add) > 2500 for add in adds_of(pair.target).values()) == 2
        view = f"SELECT {', '.join(select)} FROM source WHERE title <> 'n9' AND NOT (part = 2 AND id < 1000)"
        assert pair.equal(view)

    def test_the_filter_decides_as_in_a_query_for_each_type(self, spark, pair):
        """Nested fields, times without a zone, decimals, NaN, -0.0, bytes, dates before the Gregorian calendar, three-valued logic."""
        make(pair, 200, *ODD, files=2, **{"delta.columnMapping.mode": "name"})
        pair.sql("DELETE FROM {t} WHERE id % 17 = 4")
        filters = (
            "nested.a <> 3 OR nested.b.`c d` = 'x1' OR local >= timestamp_ntz'2024-03-31 10:30:00'",
            "amount > 20.3333333333 OR NOT (value = 0) OR bytes <> X'6B31'",
            "NOT (flag AND value > 5) OR text NOT IN ('a', 'b')",
            "flag IS NOT TRUE OR text <=> NULL OR day < date'1582-10-15' OR value = 'NaN'",
        )

        for number, where in enumerate(filters):
            pair.target, pair.folder = f"{pair.source}-{number}", pair.folder / "next"
            outcome = pair.run(target=HIDDEN, transform={"where": where}, after="Exit", verify="Final")

            assert (outcome.reason, outcome.receipt.equal) == ("Complete", True), (where, outcome)
            assert any(hidden(add) for add in copies(pair).values()), where
            assert pair.equal(f"SELECT * FROM source WHERE {where}"), where


class TestTheShareOfFailingRows:
    """It decides for each file whether rows are hidden, and a repair restores the decision."""

    def test_a_file_is_copied_decoded_or_left_out(self, spark, pair):
        """None, a few, most, and all of its rows fail. Damaged copies are repaired, and the others stay."""
        make(
            pair, 2000, "if(id < 500 OR (id < 1000 AND id % 10 > 0) OR (id < 1500 AND id % 10 = 3), 'ok', 'x') AS text"
        )
        spec = {
            "target": HIDDEN,
            "transform": {"where": "text LIKE 'o%'"},
            "after": "Exit",
            "verify": "Final",
        }

        outcome = pair.run(**spec)

        assert (outcome.reason, outcome.receipt.rows, outcome.receipt.rows_filtered) == ("Complete", 1000, 1000)
        assert (outcome.receipt.files_by_bytes, outcome.receipt.rows_by_rows) == (2, 50)
        copied = copies(pair)
        assert {number: hidden(add) for number, add in copied.items()} == {0: 0, 1: 50}
        decoded = [add for path, add in adds_of(pair.target).items() if add not in copied.values()]
        assert [json.loads(add["stats"])["numRecords"] for add in decoded] == [50]
        self.repair(pair, spec, copied, decoded)

    @staticmethod
    def repair(pair, spec, copied, decoded):
        """Show the hidden rows of one copy, and hide rows of another one."""
        visible = {name: value for name, value in copied[1].items() if name != "deletionVector"}
        hiding = copied[0] | {"deletionVector": copied[1]["deletionVector"], "stats": copied[1]["stats"]}
        commit_actions(Path(pair.target), [copied[0], copied[1]], [visible, hiding])
        settings = DriverSettings(cores=2, state_dir=pair.folder / "state")

        repaired = repair_target(
            job(pair.source, pair.target, **{"source": {"key": []}, "strategy": {"type": "Replica"}, **spec}),
            settings=settings,
            spark=pair.spark,
        )

        assert repaired.receipt.equal
        assert {number: hidden(add) for number, add in copies(pair).items()} == {0: 0, 1: 50}
        assert decoded[0]["path"] in adds_of(pair.target), "a file that fits stays"
        assert pair.equal("SELECT * FROM source WHERE text LIKE 'o%'")

    def test_a_plan_counts_the_rows_that_stay(self, spark, pair):
        """A user learns before the job that rows stay in files."""
        make(pair, 2000, "id % 10 AS value")
        settings = DriverSettings(cores=2, state_dir=pair.folder / "state")

        plan = plan_job(
            job(pair.source, pair.target, source={"key": []}, strategy={"type": "Replica"}, target=HIDDEN, transform={"where": "value > 0"}),
            settings=settings, spark=spark,
        )  # fmt: skip

        assert [(group.way, group.files) for group in plan.ways] == [("Hidden", 4)]
        (warning,) = [warning for warning in plan.warnings if warning.reason == "HiddenRowsStay"]
        assert "about 200 rows" in warning.message


class TestOtherJobs:
    """Jobs that merge changes hide rows too; targets without deletion vectors are refused."""

    def test_a_snapshot_hides_rows_and_merges_changes(self, spark, pair):
        """MERGE changes visible rows only, also those of hidden copies."""
        make(pair, 2000, "id % 10 AS value", **{"delta.enableChangeDataFeed": "true"})
        spec = {"strategy": {"type": "Snapshot"}, "source": {"key": ["id"]}, "transform": {"where": "value > 0"}}

        outcome = pair.run(
            "UPDATE {t} SET value = 0 WHERE id IN (1, 2)",
            "UPDATE {t} SET value = 5 WHERE id IN (10, 20)",
            "INSERT INTO {t} SELECT id, id % 10 FROM range(2000, 2100)",
            target=HIDDEN | {"writeMode": "Upsert"},
            **spec,
        )

        assert outcome.reason == "Stopped", outcome
        assert [hidden(add) > 40 for add in copies(pair).values()].count(True) >= 4
        assert pair.equal("SELECT * FROM source WHERE value > 0")

    def test_a_target_that_cannot_hide_rows_is_refused(self, spark, pair):
        """Nothing is written, and the message names the property and the remedy."""
        make(pair, 20, "id % 10 AS value", files=1)
        spark.createDataFrame([], "id bigint, value bigint").write.format("delta").save(pair.target)
        spec = {"transform": {"where": "value > 0"}, "after": "Exit"}

        old = pair.run(target=HIDDEN, **spec)
        assert_ending(old, "UnsupportedTargetFeature")
        assert "needs deletion vectors, which" in old.message
        assert f"SET TBLPROPERTIES ('{VECTORS}' = 'true')" in old.hint
        pair.sql(
            f"ALTER TABLE {{copy}} SET TBLPROPERTIES ('{VECTORS}' = 'true', 'delta.enableChangeDataFeed' = 'true')"
        )
        feed = pair.run(target=HIDDEN, **spec)
        assert "has a change feed" in feed.message
        pair.sql("ALTER TABLE {copy} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
        assert pair.run(target=HIDDEN, **spec).reason == "Complete"
        assert pair.equal("SELECT * FROM source WHERE value > 0")
        pair.target = str(pair.folder / "new")
        refused = pair.run(target=HIDDEN | {"properties": {VECTORS: "false"}}, **spec)
        assert "needs deletion vectors, which" in refused.message
        assert "remove the property from the spec of a new one" in refused.hint
