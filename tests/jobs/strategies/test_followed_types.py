"""A replica of a source whose columns became wider: files keep the narrow type, and the target's log records it as the source's does.

delta-rs cannot read such a table. So the tests compare the parts: columns in the log, the bytes of files, the statistics in the
log, and rows by Spark.
"""

import json
import re
from pathlib import Path

import pytest
from support.replica.pair import FOLLOW, Pair, metadata_of
from support.tables.jobs import job
from support.tables.oracle import adds_of

from backfill_spark.driver.plan import plan_job
from backfill_spark.settings import DriverSettings

WIDENS = "'delta.enableTypeWidening' = 'true', 'delta.enableDeletionVectors' = 'true'"
NTZ = "'delta.feature.timestampNtz' = 'supported'"
COLUMNS = (
    "id LONG, b BYTE, i INT, f FLOAT, d DECIMAL(5,2), di INT, dbl INT, dt DATE,"
    " st STRUCT<x: INT, l: ARRAY<INT>, m: MAP<INT, FLOAT>>"
)
ROWS = (
    "INSERT INTO {t} SELECT id, 1, CAST(id AS INT), 0.1, 1.25, 3, 4, DATE '2024-01-01',"
    " named_struct('x', 1, 'l', array(1), 'm', map(1, 0.1F)) FROM range(0, 40, 1, 2)"
)
WIDER = {
    "b": "INT", "i": "LONG", "f": "DOUBLE", "d": "DECIMAL(12,4)", "di": "DECIMAL(12,2)", "dbl": "DOUBLE", "dt": "TIMESTAMP_NTZ",
    "st.x": "LONG", "st.l.element": "LONG", "st.m.key": "LONG", "st.m.value": "DOUBLE",
}  # fmt: skip
LATER = (
    "INSERT INTO {t} SELECT id + 5000000000, 1000, id + 5000000000, 1.5D, 12345.0001, 12345.67, 4.5D,"
    " TIMESTAMP_NTZ '2024-01-01 10:00:00', named_struct('x', 5000000000, 'l', array(1L), 'm', map(1L, 0.1D)) FROM range(0, 9, 1, 1)"
)


TAKES_NTZ = {"properties": {"delta.feature.timestampNtz": "supported"}}


class TestATargetThatCannotTell:
    """Readers of such a target would read narrow files as wide ones."""

    def test_a_target_without_the_feature_ends_the_job_until_it_has_it(self, pair):
        """The source got the feature after the target was made. The hint is the statement that its owner runs."""
        pair.make("'delta.enableDeletionVectors' = 'true'")
        widens = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
        outcome = pair.run(widens, *pair.widen("i"))

        assert (outcome.reason, outcome.exit_code) == ("SchemaChanged", 45)
        assert (
            "'i' changed its type: integer became long, and the target does not have the table feature typeWidening"
            in outcome.message
        )
        assert "version 3" in outcome.message
        assert pair.with_metadata() == []

        pair.sql("ALTER TABLE {copy} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        outcome = pair.run("DELETE FROM {t} WHERE id = 3")
        assert outcome.outcome == "Stopped", outcome.message
        assert columns(pair.target) == columns(pair.source)
        assert pair.equal()

    def test_rows_are_decoded_for_a_target_with_wide_types(self, pair):
        """The target existed before, with the wide types and no recorded change."""
        pair.make()
        pair.sql(
            "CREATE TABLE {copy} LIKE {t}".replace(
                "LIKE", "USING delta AS SELECT id, CAST(d AS DECIMAL(12,4)) AS d FROM"
            )
            + " WHERE false"
        )
        pair.sql("ALTER TABLE {copy} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", *pair.widen("d"))
        outcome = pair.run("DELETE FROM {t} WHERE id = 3", transform={"select": ["id", "d"]})

        assert outcome.outcome == "Stopped", outcome.message
        assert not any(name.startswith("w-") for name in pair.added())
        assert pair.equal("SELECT id, d FROM source")

    def test_another_type_is_refused_unless_the_job_follows(self, pair):
        """`Fail` is the default."""
        pair.make()
        outcome = pair.run(*pair.widen("i"), source={"key": []})

        assert (outcome.reason, "'i' changed its type" in outcome.message) == ("SchemaChanged", True)


class Numbers(Pair):
    """A source with a column of each type that may become wider."""

    def make(self, properties=f"{WIDENS}, {NTZ}"):
        self.sql(f"CREATE TABLE {{t}} ({COLUMNS}) USING delta TBLPROPERTIES ({properties})", ROWS)

    def run(self, *changes, **spec):
        return super().run(*changes, **{"target": TAKES_NTZ, **spec})

    def widen(self, *names):
        return [f"ALTER TABLE {{t}} ALTER COLUMN {name} TYPE {WIDER[name]}" for name in names or WIDER]

    def equal(self, view="SELECT * FROM source"):
        """Compare columns and rows; Spark's own difference does not support maps."""
        self.spark.read.format("delta").load(self.source).createOrReplaceTempView("source")
        expected, copied = self.spark.sql(view), self.spark.read.format("delta").load(self.target)
        assert [(field.name, field.dataType) for field in copied.schema] == [
            (field.name, field.dataType) for field in expected.schema
        ]
        return sorted(map(repr, expected.collect())) == sorted(map(repr, copied.collect()))

    def added(self):
        """Return the names of all files that were ever added to the target."""
        return [
            action["add"]["path"].rsplit("/", 1)[-1]
            for commit in self.commits()
            for action in commit
            if "add" in action
        ]


@pytest.fixture
def pair(spark, tmp_path):
    return Numbers(spark, tmp_path)


def columns(table):
    return json.loads(metadata_of(table)["schemaString"])


MIDNIGHT = re.compile(r"(T00:00:00)?(\.000)?$")


def contents(table):
    """Return the bytes of a table's files, each with its hidden rows, its rows, and its smallest values by column."""
    files = []
    for path, add in adds_of(table).items():
        hidden = (add.get("deletionVector") or {}).get("cardinality", 0)
        stats = json.loads(add["stats"])
        files.append((Path(table, path).read_bytes(), hidden, stats["numRecords"], dict(leaves(stats["minValues"]))))
    return sorted(files, key=lambda file: file[0])


def leaves(values, *above):
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, *above, name)
        else:
            # Spark and Kernel format the same time differently.
            yield (*above, name), MIDNIGHT.sub("", value) if isinstance(value, str) else value


def equal(pair):
    """Return True if the files are equal, and each bound of the target is one of the source.

    The footer of a narrow type has no bounds of a wider column.
    """
    here, there = contents(pair.target), contents(pair.source)
    return [file[:3] for file in here] == [file[:3] for file in there] and all(
        copy[3].items() <= origin[3].items() for copy, origin in zip(here, there, strict=True)
    )


class TestATypeThatBecomesWider:
    """A wider type is followed by a change of the metadata; no file changes."""

    @pytest.mark.rest
    def test_each_wider_type_is_followed(self, pair):
        """There are old files, new ones, and hidden rows in both; none is decoded."""
        pair.make()
        outcome = pair.run(*pair.widen(), LATER, "DELETE FROM {t} WHERE id IN (1, 30, 5000000002)", "OPTIMIZE {t}")
        final = pair.run(after="Exit", verify="Final")

        assert outcome.outcome == "Stopped", outcome.message
        assert columns(pair.target) == columns(pair.source)
        assert pair.with_metadata() == [{"metaData", "domainMetadata", "txn"}] * len(WIDER)
        assert all(name.startswith("w-") for name in pair.added())
        assert equal(pair)
        assert pair.equal()
        assert (final.outcome, final.receipt.equal) == ("Complete", True)
        assert final.receipt.files_by_bytes == len(adds_of(pair.target)) == 1

    def test_wider_types_in_files_with_hidden_rows_are_followed(self, pair):
        """They are old files that no commit rewrote. All rows are compared."""
        pair.make()
        outcome = pair.run(
            "DELETE FROM {t} WHERE id = 1", *pair.widen("d", "dt"), "DELETE FROM {t} WHERE id IN (2, 30)", LATER.replace("5000000000", "50")
            .replace("1000,", "1,").replace("1.5D", "1.5F").replace("12345.67", "4").replace("4.5D", "4").replace("1L", "1").replace("0.1D", "0.1F"),
        )  # fmt: skip
        final = pair.run(after="Exit", verify="FinalByRows")

        assert outcome.outcome == "Stopped", outcome.message
        assert equal(pair)
        assert (final.outcome, final.receipt.equal) == ("Complete", True)
        assert pair.equal()

    def test_types_that_were_wider_before_are_followed(self, pair):
        """Later changes do not matter: the target is created with the types that the source's log records for its files."""
        pair.make()
        pair.sql(*pair.widen(), LATER, "DELETE FROM {t} WHERE id = 1")
        settings = DriverSettings(cores=2, state_dir=pair.folder / "state")
        plan = plan_job(job(pair.source, pair.target, **FOLLOW), settings=settings, spark=pair.spark)
        outcome = pair.run("DELETE FROM {t} WHERE id = 5000000002", source={"key": []})

        assert [(way.way, way.files) for way in plan.ways] == [("Whole", 3)]
        assert outcome.outcome == "Stopped", outcome.message
        assert columns(pair.target) == columns(pair.source)
        assert equal(pair)
        assert pair.equal()

    def test_wider_types_in_a_mapped_table_are_followed(self, pair):
        """One column is dropped, and one is renamed."""
        pair.make(f"{WIDENS}, 'delta.columnMapping.mode' = 'name'")
        outcome = pair.run(
            *pair.widen("i", "st.x"),
            "ALTER TABLE {t} RENAME COLUMN i TO big",
            "ALTER TABLE {t} DROP COLUMNS (b, f, d, di, dbl, dt)",
            "INSERT INTO {t} SELECT id + 5000000000, id, named_struct('x', id, 'l', array(1), 'm', map(1, 0.1F)) FROM range(0, 9, 1, 1)",
            "UPDATE {t} SET big = 5000000000 WHERE id = 3",
        )
        final = pair.run(after="Exit", verify="Final")

        assert outcome.outcome == "Stopped", outcome.message
        assert (final.outcome, final.receipt.equal) == ("Complete", True)
        assert all(name.startswith("w-") for name in pair.added())
        assert pair.equal()

    def test_files_of_a_projection_with_wider_types_are_decoded(self, pair):
        """The statistics of narrow values in a footer would be misread.

        Old files stay, also if rows of them are hidden.
        """
        pair.make()
        select = "SELECT id, d AS cents, dt FROM source"
        outcome = pair.run(
            *pair.widen("d", "dt"),
            "DELETE FROM {t} WHERE id IN (1, 30)",
            "INSERT INTO {t} (id, d, dt) VALUES (100, 12345.0001, TIMESTAMP_NTZ '2024-01-01 10:00:00')",
            transform={"select": ["id", "d AS cents", "dt"]},
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert sum(not name.startswith("w-") for name in pair.added()) == 1
        assert pair.equal(select)

    def test_a_wider_column_that_is_not_selected_changes_nothing(self, pair):
        """New files are copied without it."""
        pair.make()
        outcome = pair.run(
            *pair.widen("d"),
            "INSERT INTO {t} (id, f, d) VALUES (100, 1.5, 12345.0001)",
            transform={"select": ["id", "f"]},
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert pair.with_metadata() == []
        assert all(name.startswith("w-") for name in pair.added())
        assert pair.equal("SELECT id, f FROM source")
