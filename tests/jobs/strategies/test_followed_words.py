"""A replica says of itself what its source says: comments, a description, properties of users; delta-rs reads them."""

import json

import pytest
from deltalake import DeltaTable
from support.crashes.drivers import OwnJava, Start
from support.replica.pair import FOLLOW, Pair
from support.tables.jobs import write_yaml
from support.tables.oracle import adds_of, strangers

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
    for one in kind.get("fields", ()):
        name = f"{inside}{one['name']}"
        found |= {name: one["metadata"]["comment"]} if "comment" in one["metadata"] else {}
        found |= comments(one["type"], f"{name}.")
    return found | (comments(kind["elementType"], inside) if "elementType" in kind else {})


def has_ids(table):
    """Has each column of a table, also one inside another, an id and a name of its own in files?"""
    fields = fields_of(json.loads(DeltaTable(table).schema().to_json()))
    return all({COLUMN_ID, PHYSICAL_NAME} <= one["metadata"].keys() for one in fields)


ALL = ("all orders", {"team": "sales", "tier": "gold"}, {"id": "the number", "st.a": "inside", "st.b.x": "deep"})


class TestATargetThatIsMade:
    """Says what the pinned version says."""

    @pytest.mark.parametrize("more", ["", MAPPED])
    def test_has_comments_description_and_properties_of_users(self, pair, more):
        """Not those of Delta: how a table is kept is for its owner to say."""
        pair.make(more)
        outcome = pair.run()

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.source) == words(pair.target) == ALL
        assert "delta.logRetentionDuration" not in DeltaTable(pair.target).metadata().configuration
        assert strangers(pair.target, pair.source) == strangers(pair.source, pair.target) == 0

    def test_has_what_its_job_says_of_it(self, pair):
        """A property in the spec wins; a column that is computed has no comment, and one that is left out neither."""
        pair.make()
        target = {"properties": {"team": "standby", "delta.logRetentionDuration": "interval 9 days"}}
        outcome = pair.run(
            "ALTER TABLE {t} SET TBLPROPERTIES ('team' = 'other', 'tier' = 'silver')",
            "ALTER TABLE {t} CHANGE COLUMN st COMMENT 'left out'",
            target=target,
            transform={"select": ["id AS number", "upper(v) AS id"]},
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.target) == ("all orders", {"team": "standby", "tier": "silver"}, {"number": "the number"})
        assert DeltaTable(pair.target).metadata().configuration["delta.logRetentionDuration"] == "interval 9 days"

    @pytest.mark.parametrize(
        ("more", "spec"),
        [
            (MAPPED, {"transform": {"select": ["id AS number", "upper(v) AS id", "st"]}}),
            ("", {"target": {"properties": {"delta.columnMapping.mode": "name"}}}),
        ],
    )
    def test_gives_ids_to_columns_that_the_source_gives_none(self, pair, more, spec):
        """A computed or renamed one, or all of them where the job's spec maps what the source does not."""
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
LATER = (
    "all orders, and more",
    {"team": "stock", "new": "yes"},
    {"id": "the key", "st.a": "", "st.b.x": "deeper"},
)


class TestWordsThatChange:
    """Arrive in a commit of metadata alone; no file is read, copied or decoded, and the attempt goes on."""

    def test_are_followed_one_by_one(self, pair):
        """What others set on the target in between stays, and so does what Delta keeps it by."""
        pair.make()
        pair.run()
        files = adds_of(pair.target)
        pair.sql(
            "ALTER TABLE {copy} SET TBLPROPERTIES ('theirs' = '1', 'delta.deletedFileRetentionDuration' = 'interval 3 days')"
        )
        outcome = pair.run(*CHANGES)

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.source) == LATER
        description, users, said = words(pair.target)
        assert (description, users, said) == (LATER[0], {**LATER[1], "theirs": "1"}, LATER[2])
        kept = DeltaTable(pair.target).metadata().configuration
        assert kept["delta.deletedFileRetentionDuration"] == "interval 3 days"
        assert "delta.logRetentionDuration" not in kept
        # Their own, and one for each change.
        assert pair.with_metadata() == [{"metaData"}, *[{"metaData", "domainMetadata", "txn"}] * len(CHANGES)]
        assert adds_of(pair.target) == files
        assert outcome.progress.attempt == 2

    def test_that_become_what_they_were(self, pair):
        """A version is compared with the one before it, and not with the one that was pinned."""
        pair.make()
        outcome = pair.run(
            "ALTER TABLE {t} CHANGE COLUMN id COMMENT 'the key'",
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointInterval' = '17')",
            "ALTER TABLE {t} CHANGE COLUMN id COMMENT 'the number'",
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.target) == words(pair.source) == ALL
        assert len(pair.with_metadata()) == 2

    def test_come_with_columns_and_before_and_after_them(self, pair):
        """A new column brings its own, a renamed one keeps its comment, and what is dropped takes it along."""
        pair.make(MAPPED)
        outcome = pair.run(
            "ALTER TABLE {t} ADD COLUMN w INT COMMENT 'new'",
            "ALTER TABLE {t} RENAME COLUMN id TO number",
            "ALTER TABLE {t} CHANGE COLUMN number COMMENT 'renamed'",
            "INSERT INTO {t} VALUES (300, 'n', NULL, 3)",
            "ALTER TABLE {t} DROP COLUMN st",
            "DELETE FROM {t} WHERE number = 3",
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert words(pair.target)[2] == words(pair.source)[2] == {"number": "renamed", "w": "new"}
        assert strangers(pair.target, pair.source) == strangers(pair.source, pair.target) == 0

    def test_are_not_followed_unless_that_is_asked_for(self, pair):
        """`Fail` is about columns, and words end no job."""
        pair.make()
        outcome = pair.run(*CHANGES, source={"key": []})

        assert (outcome.outcome, words(pair.target)) == ("Stopped", ALL)

    @pytest.mark.parametrize("point", ["before_seal:3", "after_seal_commit:3"])
    def test_are_there_once_when_the_driver_dies_at_their_commit(self, pair, tmp_path, point):
        """They come with the progress that says so."""
        pair.make()
        pair.run()
        pair.sql(CHANGES[0])
        file = write_yaml(tmp_path / "job.yaml", pair.source, pair.target, **FOLLOW, barrier={"intervalMs": 200})
        driver = OwnJava(Start(file, tmp_path / "other", tmp_path / "log", point))
        assert driver.wait(120) not in (None, 0)
        driver.kill()

        assert len(pair.with_metadata()) == point.startswith("after")
        assert pair.run("INSERT INTO {t} VALUES (300, 'n', NULL)").outcome == "Stopped"
        assert words(pair.target)[2]["id"] == "the key"
        assert len(pair.with_metadata()) == 1


ODD = "it's \u2028 \U0001f600"
SAID = "'it''s \u2028 \U0001f600'"
"""A default is a text of SQL."""

DEFAULTED = f"""CREATE TABLE {{t}} (id LONG, v STRING DEFAULT {SAID}, at TIMESTAMP DEFAULT current_timestamp(), n INT) USING delta
TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported', 'delta.enableDeletionVectors' = 'true'{{more}})"""


def defaults(table):
    """Return the defaults of a table's columns, as delta-rs reads them."""
    fields = json.loads(DeltaTable(table).schema().to_json())["fields"]
    return {one["name"]: word for one in fields if (word := one["metadata"].get("CURRENT_DEFAULT")) is not None}


class TestDefaults:
    """Writers who are switched to a clone may leave out what they could leave out before."""

    ROWS = "INSERT INTO {t} (id, n) SELECT id, 1 FROM range(0, 20, 1, 2)"
    FIRST = {"v": SAID, "at": "current_timestamp()"}

    def written_to(self, pair, columns="id"):
        """Return what one finds in the copy who writes to it and leaves columns out."""
        pair.sql(f"INSERT INTO {{copy}} ({columns}) VALUES (900)")
        return pair.spark.read.format("delta").load(pair.target).where(f"{columns} = 900").first()

    @pytest.mark.parametrize("more", ["", MAPPED])
    def test_are_those_of_the_source_and_follow_it(self, pair, more):
        """Changed, new and gone; under the name that the column has by then."""
        pair.sql(DEFAULTED.replace("{more}", more), self.ROWS)
        outcome = pair.run()

        assert outcome.outcome == "Stopped", outcome.message
        assert defaults(pair.target) == defaults(pair.source) == self.FIRST
        renamed = ["ALTER TABLE {t} RENAME COLUMN v TO w"] if more else []
        text = "w" if more else "v"
        outcome = pair.run(
            *renamed,
            f"ALTER TABLE {{t}} ALTER COLUMN {text} SET DEFAULT 'later'",
            "ALTER TABLE {t} ALTER COLUMN n SET DEFAULT 7",
            "INSERT INTO {t} (id) VALUES (300)",
            "ALTER TABLE {t} ALTER COLUMN at DROP DEFAULT",
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert defaults(pair.target) == defaults(pair.source) == {text: "'later'", "n": "7"}
        assert strangers(pair.target, pair.source) == strangers(pair.source, pair.target) == 0
        row = self.written_to(pair)
        assert (row[text], row["n"], row["at"]) == ("later", 7, None)

    def test_are_not_followed_into_a_table_without_the_feature(self, pair):
        """Which a source that gets the feature later does not give to its target: old writers would be locked out."""
        pair.sql("CREATE TABLE {t} (id LONG, n INT) USING delta", self.ROWS)
        outcome = pair.run(
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
            "ALTER TABLE {t} ALTER COLUMN n SET DEFAULT 7",
            "INSERT INTO {t} (id) VALUES (300)",
        )

        assert outcome.outcome == "Stopped", outcome.message
        assert (defaults(pair.source), defaults(pair.target)) == ({"n": "7"}, {})
        assert strangers(pair.target, pair.source) == strangers(pair.source, pair.target) == 0

    @pytest.mark.parametrize("more", ["", MAPPED])
    def test_of_a_column_that_is_computed_is_none(self, pair, more):
        """It may have the name of one that has a default."""
        pair.sql(DEFAULTED.replace("{more}", more), self.ROWS)
        outcome = pair.run(transform={"select": ["id AS number", "v AS text", "n + 1 AS v"]})

        assert outcome.outcome == "Stopped", outcome.message
        assert defaults(pair.target) == {"text": SAID}
        assert has_ids(pair.target) is bool(more)
        assert self.written_to(pair, "number")["text"] == ODD
