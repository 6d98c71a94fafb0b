"""A replica whose source gets other columns while it runs: they arrive with the files that have them, or end the job by name."""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from support.crashes.drivers import OwnJava, Start
from support.replica.pair import FOLLOW, Pair
from support.tables.jobs import write_yaml
from support.tables.oracle import adds_of, foreign_files, seals, violations

MAPPED = "'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'"


class Orders(Pair):
    """A source with a struct."""

    def make(self, properties="'delta.enableDeletionVectors' = 'true'"):
        self.sql(
            f"CREATE TABLE {{t}} (id LONG, v STRING, st STRUCT<a: INT>) USING delta TBLPROPERTIES ({properties})",
            "INSERT INTO {t} SELECT id, concat('v', id), named_struct('a', CAST(id AS INT)) FROM range(0, 90, 1, 3)",
        )


@pytest.fixture
def pair(spark, tmp_path):
    return Orders(spark, tmp_path)


@contextmanager
def merging_schemas(spark):
    """Let an INSERT bring new columns while the block runs."""
    spark.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    try:
        yield
    finally:
        spark.conf.unset("spark.databricks.delta.schema.autoMerge.enabled")


def _fields(table):
    return json.loads(DeltaTable(table).schema().to_json())["fields"]


class TestColumnsThatAreAdded:
    """They come with the files that have them, and are null in all others."""

    def test_arrive_in_one_commit_with_files_state_and_transaction(self, spark, pair):
        """No reader sees a new file with old columns; each version is one that another engine finds equal, too."""
        pair.make()
        with merging_schemas(spark):
            outcome = pair.run(
                "INSERT INTO {t} SELECT 200 AS id, 'n' AS v, named_struct('a', 1) AS st, 2.5D AS price",
                "ALTER TABLE {t} ADD COLUMN (st.b STRING AFTER a, note STRING FIRST)",
                "UPDATE {t} SET note = 'x', st = named_struct('a', 5, 'b', 'y') WHERE id % 7 = 0",
                "DELETE FROM {t} WHERE id % 5 = 0",
                "OPTIMIZE {t}",
            )

        assert outcome.outcome == "Stopped", outcome.message
        assert pair.equal()
        assert [
            violation for seal in seals(pair.target) for violation in violations(pair.source, pair.target, seal)
        ] == []
        first, second = pair.with_metadata()
        assert first == {"metaData", "add", "domainMetadata", "txn"}
        assert second == {"metaData", "domainMetadata", "txn"}

    def test_are_read_by_the_next_attempt(self, pair):
        """What an attempt found before its death, and what it finds afterwards."""
        pair.make()
        assert pair.run().outcome == "Stopped"
        pair.sql("ALTER TABLE {t} ADD COLUMN w INT")
        assert pair.run("INSERT INTO {t} VALUES (300, 'n', NULL, 3)").outcome == "Stopped"
        outcome = pair.run("UPDATE {t} SET w = 4 WHERE id < 9", "ALTER TABLE {t} ADD COLUMN x INT")

        assert outcome.outcome == "Stopped", outcome.message
        assert pair.equal()
        assert len(pair.with_metadata()) == 2

    def test_have_their_values_in_rows_that_are_decoded(self, spark, pair):
        """A filter that the log does not decide: rows are read by the columns of their version, in that commit and after it."""
        pair.make()
        with merging_schemas(spark):
            outcome = pair.run(
                "INSERT INTO {t} SELECT id + 200 AS id, 'n' AS v, named_struct('a', 1) AS st, 2.5D AS price FROM range(9)",
                "INSERT INTO {t} SELECT id + 300 AS id, 'n' AS v, named_struct('a', 1) AS st, 3.5D AS price FROM range(9)",
                "DELETE FROM {t} WHERE id IN (2, 202, 302)",
                transform={"where": "id % 2 = 0"},
            )

        assert outcome.outcome == "Stopped", outcome.message
        assert pair.equal("SELECT * FROM source WHERE id % 2 = 0")

    @pytest.mark.parametrize("point", ["before_seal:3", "after_seal_commit:3"])
    def test_are_there_once_when_the_driver_dies_at_their_commit(self, pair, tmp_path, point):
        """Before it there is neither file nor column, afterwards there are both."""
        pair.make()
        pair.run()
        before = len(pair.commits())
        pair.sql("ALTER TABLE {t} ADD COLUMN w INT")
        file = write_yaml(tmp_path / "job.yaml", pair.source, pair.target, **FOLLOW, barrier={"intervalMs": 200})
        driver = OwnJava(Start(file, tmp_path / "other", tmp_path / "log", point))
        assert driver.wait(120) not in (None, 0)
        driver.kill()

        assert len(pair.with_metadata()) == point.startswith("after")
        # The fence, what the attempt begins with, and the columns.
        assert len(pair.commits()) == before + (3 if point.startswith("after") else 2)
        assert pair.run("INSERT INTO {t} VALUES (300, 'n', NULL, 3)").outcome == "Stopped"
        assert pair.equal()
        assert len(pair.with_metadata()) == 1

    def test_that_are_not_selected_change_nothing(self, pair):
        """Nor does another name of one that is not selected; a computed column is made of the same."""
        pair.make(MAPPED)
        outcome = pair.run(
            "ALTER TABLE {t} ADD COLUMN w INT",
            "INSERT INTO {t} VALUES (300, 'n', NULL, 3)",
            "ALTER TABLE {t} RENAME COLUMN st TO other",
            "INSERT INTO {t} VALUES (301, 'n', NULL, 3)",
            "DELETE FROM {t} WHERE id < 9",
            transform={"select": ["id", "upper(v) AS u"], "where": "id <> 20"},
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert pair.with_metadata() == []
        assert pair.equal("SELECT id, upper(v) AS u FROM source WHERE id <> 20")


class TestColumnsOfAMappedTable:
    """Their names are words of the metadata: no file changes."""

    def test_are_renamed_and_dropped_without_a_file(self, pair):
        """Also inside others; what comes later is copied under the same names in files."""
        pair.make(MAPPED)
        outcome = pair.run(
            "ALTER TABLE {t} RENAME COLUMN v TO words",
            "ALTER TABLE {t} RENAME COLUMN st.a TO z",
            "INSERT INTO {t} VALUES (300, 'n', named_struct('z', 3))",
            "ALTER TABLE {t} ADD COLUMN (st.b INT, w INT)",
            "UPDATE {t} SET w = 1 WHERE id % 9 = 1",
            "ALTER TABLE {t} DROP COLUMN words",
            "ALTER TABLE {t} ADD COLUMN words STRING",
            "INSERT INTO {t} VALUES (301, named_struct('z', 3, 'b', 4), 5, 'again')",
            "DELETE FROM {t} WHERE id % 4 = 0",
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert pair.equal()
        assert pair.with_metadata() == [{"metaData", "domainMetadata", "txn"}] * 5

    def test_may_have_their_names_taken_by_computed_ones(self, pair):
        """Of another type, which is no column of the source."""
        pair.make(MAPPED)
        select = ["id AS number", "st", "length(v) AS v"]
        outcome = pair.run("INSERT INTO {t} VALUES (300, 'n', NULL)", transform={"select": select})

        assert outcome.outcome == "Stopped", outcome.message
        assert pair.equal(f"SELECT {', '.join(select)} FROM source")

    def test_are_dropped_and_what_comes_later_is_copied(self, pair):
        """New files, those of an UPDATE, and rows that are hidden in files of before; none is decoded."""
        pair.make(MAPPED)
        outcome = pair.run(
            "ALTER TABLE {t} DROP COLUMN v",
            "INSERT INTO {t} VALUES (300, named_struct('a', 3))",
            "UPDATE {t} SET st = named_struct('a', 7) WHERE id % 9 = 1",
            "DELETE FROM {t} WHERE id IN (1, 2, 300)",
            "OPTIMIZE {t}",
            after="Follow",
        )
        final = pair.run(after="Exit", verify="Final")

        assert outcome.outcome == "Stopped", outcome.message
        assert (final.outcome, final.receipt.equal) == ("Complete", True)
        added = [action["add"]["path"] for commit in pair.commits() for action in commit if "add" in action]
        assert all("/w-" in path for path in added)
        assert final.receipt.files_by_bytes == len(adds_of(pair.target))
        assert foreign_files(pair.target, pair.source) == foreign_files(pair.source, pair.target) == 0

    def test_dropped_before_the_job_are_in_no_statistics(self, pair):
        """The source's log keeps statistics of the dropped column; files that have it are decoded, with their hidden rows left out."""
        pair.make(MAPPED)
        pair.sql("ALTER TABLE {t} DROP COLUMN v")
        assert pair.run("INSERT INTO {t} VALUES (300, NULL)").outcome == "Stopped"
        pair.sql("DELETE FROM {t} WHERE id IN (1, 40, 300)")
        log = Path(pair.source, "_delta_log", f"{pair.head:020}.json")
        log.write_text(log.read_text().replace('minValues\\":{', 'minValues\\":{\\"gone\\":\\"v1\\",'))
        log.with_name(f".{log.name}.crc").unlink(missing_ok=True)  # Hadoop's own sum
        outcome = pair.run()

        assert (outcome.outcome, "gone" in log.read_text()) == ("Stopped", True), outcome.message
        known = {json.dumps(field["metadata"]["delta.columnMapping.physicalName"]) for field in _fields(pair.target)}
        stats = [json.loads(add["stats"]) for add in adds_of(pair.target).values()]
        assert {file["numRecords"] for file in stats} <= {29, 30}
        assert {json.dumps(name) for file in stats for name in file["minValues"]} <= known
        assert foreign_files(pair.target, pair.source) == foreign_files(pair.source, pair.target) == 0

    def test_are_compared_by_their_new_names(self, pair):
        """The receipt of a job that ends right behind a change."""
        pair.make(MAPPED)
        pair.run()
        pair.sql(
            "ALTER TABLE {t} RENAME COLUMN v TO words",
            "ALTER TABLE {t} ADD COLUMN w INT",
            "UPDATE {t} SET w = 1 WHERE id % 9 = 1",
        )
        outcome = pair.run(after="Exit", verify="Final")

        assert (outcome.outcome, outcome.message) == ("Complete", "")
        assert outcome.receipt.equal
        assert outcome.receipt.files_by_bytes > 0
        assert pair.equal()


class TestWhatIsRefused:
    """By name, with the version; the target stays as it was."""

    @pytest.mark.parametrize(
        ("properties", "change", "transform", "words"),
        [
            (MAPPED, "ALTER TABLE {t} RENAME COLUMN v TO w", {"select": ["id", "v"]}, "cannot be computed from"),
            (MAPPED, "ALTER TABLE {t} DROP COLUMN id", {"where": "id > 0"}, "cannot be computed from"),
            ("", "ALTER TABLE {t} ADD COLUMN at TIMESTAMP_NTZ", {}, "'at' was added, and the target does not have"),
        ],
    )
    def test_names_the_column_and_the_version(self, pair, properties, change, transform, words):
        """A column that the transform asks for, a feature that the target has not."""
        extra = "'delta.feature.timestampNtz' = 'supported'"
        pair.make(", ".join(filter(None, (properties, extra))))
        outcome = pair.run(change, transform=transform)

        assert (outcome.reason, outcome.exit_code) == ("SchemaChanged", 45)
        assert words in outcome.message
        assert "version 2" in outcome.message
        assert pair.with_metadata() == []

    def test_what_was_ignored_before(self, pair):
        """Files that came meanwhile may have it or not: what they would show is a guess."""
        pair.make()
        ignore = {"key": [], "schemaChange": "Ignore"}
        pair.run(("ALTER TABLE {t} ADD COLUMN w INT", "INSERT INTO {t} VALUES (300, 'n', NULL, 3)"), source=ignore)
        outcome = pair.run("ALTER TABLE {t} ADD COLUMN x INT")

        assert (outcome.reason, "schemaChange was Ignore" in outcome.message) == ("SchemaChanged", True)
        assert DeltaTable(pair.target).schema().fields[-1].name == "st"

    def test_any_change_unless_it_is_asked_for(self, pair):
        """`Fail` is the default."""
        pair.make()
        outcome = pair.run("ALTER TABLE {t} ADD COLUMN w INT", source={"key": []})

        assert (outcome.reason, "'w' was added" in outcome.message) == ("SchemaChanged", True)
        assert "Follow" in outcome.error.hint
