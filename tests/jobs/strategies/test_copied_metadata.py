"""A target that the job makes gets the comments, description, user properties and defaults of its source; delta-rs reads them."""

import json

import pytest
from deltalake import DeltaTable
from support.replica.pair import Pair
from support.tables.oracle import adds_of, foreign_files

from backfill_core.log_shipping.columns import COLUMN_ID, PHYSICAL_NAME, fields_of

MADE = """CREATE TABLE {t} (
    id LONG COMMENT 'the number', v STRING, st STRUCT<a: INT COMMENT 'inside', b: ARRAY<STRUCT<x: INT COMMENT 'deep'>>>
) USING delta COMMENT 'all orders' TBLPROPERTIES (
    'team' = 'sales', 'tier' = 'gold', 'delta.logRetentionDuration' = 'interval 60 days', 'delta.enableDeletionVectors' = 'true'{more}
)"""
ROWS = "INSERT INTO {t} SELECT id, 'v', named_struct('a', 1, 'b', array(named_struct('x', 2))) FROM range(0, 20, 1, 2)"


MAPPED = ", 'delta.columnMapping.mode' = 'name'"


class Orders(Pair):
    """A source that says much of itself."""

    def make(self, more=""):
        self.sql(MADE.replace("{more}", more), ROWS)


@pytest.fixture
def pair(spark, tmp_path):
    return Orders(spark, tmp_path)


def words(table):
    """Return description, properties of users and comments of a table, as delta-rs reads them."""
    found = DeltaTable(table)
    said = found.metadata()
    users = {name: text for name, text in said.configuration.items() if not name.startswith("delta.")}
    return said.description, users, comments(json.loads(found.schema().to_json()))


def comments(kind, inside=""):
    if isinstance(kind, str):
        return {}
    found = {}
    for field in kind.get("fields", ()):
        name = f"{inside}{field['name']}"
        found |= {name: field["metadata"]["comment"]} if "comment" in field["metadata"] else {}
        found |= comments(field["type"], f"{name}.")
    return found | (comments(kind["elementType"], inside) if "elementType" in kind else {})


def has_ids(table):
    """Return whether each column and field of a table has an id and a physical name."""
    fields = fields_of(json.loads(DeltaTable(table).schema().to_json()))
    return all({COLUMN_ID, PHYSICAL_NAME} <= field["metadata"].keys() for field in fields)


ALL = ("all orders", {"team": "sales", "tier": "gold"}, {"id": "the number", "st.a": "inside", "st.b.x": "deep"})


class TestATargetThatIsMade:
    """It has the metadata of the pinned version."""

    @pytest.mark.parametrize("more", ["", MAPPED])
    def test_has_comments_description_and_properties_of_users(self, pair, more):
        """Not those of Delta: how a table is kept is for its owner to say."""
        pair.make(more)
        outcome = pair.run()

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.source) == words(pair.target) == ALL
        assert "delta.logRetentionDuration" not in DeltaTable(pair.target).metadata().configuration
        assert foreign_files(pair.target, pair.source) == foreign_files(pair.source, pair.target) == 0

    def test_has_what_its_job_says_of_it(self, pair):
        """A property in the spec wins; computed columns have no comment."""
        pair.make()
        target = {"properties": {"team": "standby", "delta.logRetentionDuration": "interval 9 days"}}
        outcome = pair.run(target=target, transform={"select": ["id AS number", "upper(v) AS id"]})

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.target) == ("all orders", {"team": "standby", "tier": "gold"}, {"number": "the number"})
        assert DeltaTable(pair.target).metadata().configuration["delta.logRetentionDuration"] == "interval 9 days"

    @pytest.mark.parametrize(
        ("more", "spec"),
        [
            (MAPPED, {"transform": {"select": ["id AS number", "upper(v) AS id", "st"]}}),
            ("", {"target": {"properties": {"delta.columnMapping.mode": "name"}}}),
        ],
    )
    def test_gives_ids_to_columns_that_the_source_gives_none(self, pair, more, spec):
        """Computed and renamed columns get ids, or all columns if only the job's spec enables column mapping."""
        pair.make(more)
        outcome = pair.run("DELETE FROM {t} WHERE id = 3", **spec)

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.target)[0] == "all orders"
        assert has_ids(pair.target)
        assert pair.spark.read.format("delta").load(pair.target).count() == 19


CHANGES = [
    "ALTER TABLE {t} CHANGE COLUMN id COMMENT 'the key'",
    "ALTER TABLE {t} CHANGE COLUMN st.a COMMENT ''",
    "ALTER TABLE {t} CHANGE COLUMN st.b.element.x COMMENT 'deeper'",
    "ALTER TABLE {t} SET TBLPROPERTIES ('team' = 'stock', 'new' = 'yes', 'delta.logRetentionDuration' = 'interval 70 days')",
    "ALTER TABLE {t} UNSET TBLPROPERTIES ('tier')",
    "COMMENT ON TABLE {t} IS 'all orders, and more'",
]


class TestMetadataThatChanges:
    """After its creation the target's metadata belongs to its owner; only columns are followed."""

    def test_is_not_followed(self, pair):
        """No commit of the job changes metadata, and the attempt continues."""
        pair.make()
        pair.run()
        files = adds_of(pair.target)
        pair.sql("ALTER TABLE {copy} SET TBLPROPERTIES ('theirs' = '1')")
        outcome = pair.run(*CHANGES, "INSERT INTO {t} VALUES (300, 'n', NULL)")

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.target) == (ALL[0], {**ALL[1], "theirs": "1"}, ALL[2])
        assert pair.with_metadata() == [{"metaData"}]
        assert set(files) < set(adds_of(pair.target))
        assert outcome.progress.attempt == 2
        assert foreign_files(pair.target, pair.source) == foreign_files(pair.source, pair.target) == 0

    def test_comes_with_a_new_column_and_stays_with_a_renamed_one(self, pair):
        """A dropped column takes its comment along."""
        pair.make(MAPPED)
        outcome = pair.run(
            "ALTER TABLE {t} ADD COLUMN w INT COMMENT 'new'",
            "ALTER TABLE {t} RENAME COLUMN id TO number",
            "INSERT INTO {t} VALUES (300, 'n', NULL, 3)",
            "ALTER TABLE {t} DROP COLUMN st",
            "DELETE FROM {t} WHERE number = 3",
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.target)[2] == words(pair.source)[2] == {"number": "the number", "w": "new"}
        assert foreign_files(pair.target, pair.source) == foreign_files(pair.source, pair.target) == 0


ODD = "it's \u2028 \U0001f600"
SAID = "'it''s \u2028 \U0001f600'"
"""A default is a text of SQL."""

DEFAULTED = f"""CREATE TABLE {{t}} (id LONG, v STRING DEFAULT {SAID}, at TIMESTAMP DEFAULT current_timestamp(), n INT) USING delta
TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported', 'delta.enableDeletionVectors' = 'true'{{more}})"""


def defaults(table):
    """Return the defaults of a table's columns, as delta-rs reads them."""
    fields = json.loads(DeltaTable(table).schema().to_json())["fields"]
    return {field["name"]: text for field in fields if (text := field["metadata"].get("CURRENT_DEFAULT")) is not None}


class TestDefaults:
    """Writers who are switched to a clone may leave out what they could leave out before."""

    ROWS = "INSERT INTO {t} (id, n) SELECT id, 1 FROM range(0, 20, 1, 2)"
    FIRST = {"v": SAID, "at": "current_timestamp()"}

    def written_to(self, pair, columns="id"):
        """Return a row that another writer adds to the copy without some columns."""
        pair.sql(f"INSERT INTO {{copy}} ({columns}) VALUES (900)")
        return pair.spark.read.format("delta").load(pair.target).where(f"{columns} = 900").first()

    @pytest.mark.parametrize("more", ["", MAPPED])
    def test_are_those_of_the_source_at_the_start(self, pair, more):
        """A later change of a default is not followed."""
        pair.sql(DEFAULTED.replace("{more}", more), self.ROWS)
        outcome = pair.run("ALTER TABLE {t} ALTER COLUMN v SET DEFAULT 'later'", "INSERT INTO {t} (id) VALUES (300)")

        assert outcome.outcome == "Stopped", outcome.message
        assert defaults(pair.target) == self.FIRST
        assert foreign_files(pair.target, pair.source) == foreign_files(pair.source, pair.target) == 0
        row = self.written_to(pair)
        assert (row["v"], row["n"], row["at"] is None) == (ODD, None, False)

    @pytest.mark.parametrize("more", ["", MAPPED])
    def test_of_a_column_that_is_computed_is_none(self, pair, more):
        """It may have the name of a source column with a default."""
        pair.sql(DEFAULTED.replace("{more}", more), self.ROWS)
        outcome = pair.run(transform={"select": ["id AS number", "v AS text", "n + 1 AS v"]})

        assert outcome.outcome == "Stopped", outcome.message
        assert defaults(pair.target) == {"text": SAID}
        assert has_ids(pair.target) is bool(more)
        assert self.written_to(pair, "number")["text"] == ODD
