"""Changes of the source as what the target must do: the last image of each key, and what proves a key wrong."""

import random
import re

import pytest

from backfill_core.errors import DuplicateKeyError, KeyInvalidError, SourceNotAppendOnlyError
from backfill_spark.rows.changes import DELETE, append_rows, changelog_rows, check_net_changes, net_changes
from backfill_spark.rows.transform import Transform
from backfill_spark.rows.write_modes import UPSERT
from backfill_spark.sinks.delta.sink import DeltaSink

ALL, PASSING = Transform(), Transform(None, "amount > 10")
COLUMNS = "id long, amount long, _change_type string, _commit_version long"
BEFORE, AFTER = "update_preimage", "update_postimage"


def net(spark, rows, transform=ALL, key=("id",), columns=COLUMNS):
    return net_changes(spark.createDataFrame(rows, columns), transform, key).localCheckpoint()


def play(table, version, chance, keys):
    """Change a table in memory; return it and the changes as the feed would tell them."""
    changes, table = [], dict(table)
    for _ in range(chance.randrange(1, 6)):
        key = chance.randrange(keys)
        free = [one for one in range(keys) if one not in table]
        match chance.randrange(4):
            case 0 if key not in table:
                table[key] = chance.randrange(100)
                changes.append((key, table[key], "insert"))
            case 1 if key in table:
                changes.append((key, table[key], "update_preimage"))
                table[key] = chance.randrange(100)
                changes.append((key, table[key], "update_postimage"))
            case 2 if key in table:
                changes.append((key, table.pop(key), "delete"))
            case 3 if key in table and free:
                other, value = chance.choice(free), table.pop(key)
                table[other] = value
                changes += [(key, value, "update_preimage"), (other, value, "update_postimage")]
    # One Delta commit holds each row's net effect; a key touched twice in it is a delete and an insert.
    return table, [(*change, version) for change in changes]


def net_of_version(before, after, version):
    """Return the changes of one commit as Delta's feed tells them."""
    out = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old is not None and new is not None and old != new:
            out += [(key, old, "update_preimage", version), (key, new, "update_postimage", version)]
        elif old is not None and new is None:
            out.append((key, old, "delete", version))
        elif old is None and new is not None:
            out.append((key, new, "insert", version))
    return out


def history(seed):
    """Return a table of 20 keys, what became of it in seven versions, and their changes as the feed tells them."""
    chance = random.Random(seed)
    start = table = {key: chance.randrange(100) for key in range(0, 20, 2)}
    feed = []
    for version in range(1, 8):
        after, _ = play(table, version, chance, 20)
        feed += net_of_version(table, after, version)
        table = after
    return start, table, feed


def together(spark, examples, transform=ALL):
    """Return the net changes of each example by its name: one query for all of them, each with keys of its own."""
    rows = [(at, *row[1:]) for at, example in enumerate(examples.values()) for row in example]
    found = {row["id"]: row for row in net(spark, rows, transform).collect()}
    return {name: found[at] for at, name in enumerate(examples)}


class TestChangesBecomeWhatTheTargetMustDo:
    """Net changes merged into the old view give the new view, filter and key changes included (R-SNAP-48)."""

    def test_random_histories(self, spark, tmp_path):
        """Four of them, with keys of their own, in one MERGE."""
        start, table, feed = {}, {}, []
        for seed in range(4):
            before, after, told = history(seed)
            start |= {key + 100 * seed: amount for key, amount in before.items()}
            table |= {key + 100 * seed: amount for key, amount in after.items()}
            feed += [(key + 100 * seed, *rest) for key, *rest in told]
        transform = Transform(("id AS key", "amount * 2 AS twice"), "amount >= 30")
        changes = spark.createDataFrame(feed, COLUMNS)
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=UPSERT, key=("key",), job_id="j")
        old = spark.createDataFrame(list(start.items()), "id long, amount long")
        sink.prepare(transform.apply(old).schema)
        transform.apply(old).write.format("delta").mode("append").save(sink.path)

        sink.merge(net_changes(changes, transform, ("key",)).localCheckpoint(), app_id="a", txn_version=1)
        found = {row["key"]: row["twice"] for row in spark.read.format("delta").load(sink.path).collect()}
        assert found == {key: 2 * value for key, value in table.items() if value >= 30}

    def test_a_delete_and_an_insert_of_a_key_in_one_version_leave_the_insert(self, spark):
        """The feed gives both in any order."""
        changes = spark.createDataFrame(
            [(1, 9, "insert", 4), (1, 5, "delete", 4)],
            "id long, amount long, _change_type string, _commit_version long",
        )

        row = net_changes(changes, ALL, ("id",)).collect()[0]
        assert (row["amount"], row[DELETE]) == (9, False)

    def test_an_append_target_takes_no_update(self, spark):
        """It cannot take back a row."""
        changes = spark.createDataFrame([(1, "delete", 4)], "id long, _change_type string, _commit_version long")

        with pytest.raises(SourceNotAppendOnlyError, match="version 4"):
            append_rows(changes)


LAST_IMAGES = {
    "added": ([(1, 5, "insert", 4)], (5, False)),
    "replaced in one version": ([(1, 6, "insert", 5), (1, 5, "delete", 5)], (6, False)),
    "updated, then gone": ([(1, 5, BEFORE, 4), (1, 6, AFTER, 4), (1, 6, "delete", 5)], (None, True)),
    "gone, then added": ([(1, 6, "insert", 9), (1, 5, "delete", 8)], (6, False)),
    "updated twice": ([(1, 5, BEFORE, 4), (1, 6, AFTER, 4), (1, 6, BEFORE, 10), (1, 7, AFTER, 10)], (7, False)),
}
"""What happened to one key, and its last image. Versions are numbers: 10 comes after 9."""


@pytest.fixture(scope="module")
def last_images(spark):
    return together(spark, {name: rows for name, (rows, _) in LAST_IMAGES.items()})


class TestTheLastImageOfAKeyWins:
    """One row a key: what it is after the newest version, or that it is gone."""

    @pytest.mark.parametrize("name", LAST_IMAGES)
    def test_of_one_key(self, last_images, name):
        """Order within a version is not that of the feed."""
        row = last_images[name]

        assert (None if row[DELETE] else row["amount"], row[DELETE]) == LAST_IMAGES[name][1]

    def test_a_changed_key_removes_the_old_one(self, spark):
        """Otherwise the row would be there under both keys."""
        rows = net(spark, [(1, 5, BEFORE, 4), (2, 5, AFTER, 4)]).collect()

        assert sorted((row["id"], row[DELETE]) for row in rows) == [(1, True), (2, False)]


FILTERED = {
    "passed, and passes no more": ([(1, 50, "insert", 4), (1, 50, BEFORE, 5), (1, 5, AFTER, 5)], True),
    "passes no more": ([(1, 50, BEFORE, 4), (1, 5, AFTER, 4)], True),
    "passes now": ([(1, 5, BEFORE, 4), (1, 50, AFTER, 4)], False),
    "passed in between, unknown now": (
        [(1, 5, BEFORE, 4), (1, 50, AFTER, 4), (1, 50, BEFORE, 5), (1, None, AFTER, 5)],
        True,
    ),
}
"""What happened to one key, and whether it is gone where amounts above 10 pass."""


@pytest.fixture(scope="module")
def filtered(spark):
    return together(spark, {name: rows for name, (rows, _) in FILTERED.items()}, PASSING)


class TestTheFilter:
    """A row that does not pass it is not there."""

    @pytest.mark.parametrize("name", FILTERED)
    def test_of_images(self, filtered, name):
        """A condition that is neither true nor false is not passed."""
        assert filtered[name][DELETE] == FILTERED[name][1]

    def test_what_never_passed_is_no_change(self, spark):
        """A delete of a row that is not there costs a MERGE."""
        assert net(spark, [(1, 5, "insert", 4), (2, 5, BEFORE, 4), (2, 6, AFTER, 4)], PASSING).count() == 0

    def test_it_guards_every_expression_the_keys_too(self, spark):
        """`100 / n` where `n <> 0`, and then an update to 0: as in the snapshot, it is not computed."""
        guarded = Transform(("100 / amount AS share", "100 DIV amount AS id"), "amount <> 0")
        rows = [(1, 50, BEFORE, 4), (1, 0, AFTER, 4), (2, 0, BEFORE, 4), (2, 10, AFTER, 4), (3, 0, "insert", 5)]
        merged = {row["id"]: (row["share"], row[DELETE]) for row in net(spark, rows, guarded).collect()}
        logged = changelog_rows(spark.createDataFrame(rows, COLUMNS), guarded, key=("id",), epoch=1).collect()

        assert merged == {2: (2.0, True), 10: (10.0, False)}
        assert sorted((row["id"], row["_op"]) for row in logged) == [(2, "delete"), (10, "insert")]

    def test_it_speaks_of_the_source_not_of_the_output(self, spark):
        """`where` may name columns that are not selected, or whose name is given to something else."""
        rows = net(spark, [(1, 50, "insert", 4)], Transform(("id", "1 AS amount"), "amount > 10")).collect()

        assert [(row["amount"], row[DELETE]) for row in rows] == [(1, False)]

    def test_rows_that_fail_it_double_no_key(self, spark):
        """Only rows of the target can share a key there."""
        rows = [(1, 50, "insert", 4), (1, 5, "insert", 4), (1, 6, "insert", 5)]

        assert check_net_changes(net(spark, rows, Transform(None, "amount > 10")), ("id",)) == 1


class TestAKeyThatTwoRowsShare:
    """Found where the changes themselves prove it, over all versions of a batch."""

    @pytest.mark.parametrize(
        "rows",
        [
            [(1, 5, "insert", 4), (1, 6, "insert", 4)],
            [(1, 5, "insert", 4), (1, 6, "insert", 5), (1, 6, "delete", 6)],
            [(1, 5, "insert", 4), (1, 6, "insert", 4), (1, 5, "delete", 5)],
            [(1, 5, "delete", 4), (1, 6, "delete", 4)],
            [(1, 5, "delete", 4), (1, 6, "delete", 5)],
            [(1, 5, BEFORE, 4), (1, 6, AFTER, 4), (1, 7, BEFORE, 4), (1, 8, AFTER, 4)],
            [(1, 5, "insert", 4), (2, 6, BEFORE, 5), (1, 6, AFTER, 5)],
        ],
        ids=[
            "two added", "added again, removed once", "two added, one removed", "two removed", "removed twice",
            "two updated", "another became it",
        ],
    )  # fmt: skip
    def test_is_found_and_named(self, spark, rows):
        """By a condition that finds its rows, not by its values."""
        named = spark.sql("SELECT xxhash64(1L)").first()[0]

        with pytest.raises(DuplicateKeyError, match=re.escape(f"xxhash64(id) = {named}.")):
            check_net_changes(net(spark, rows), ("id",))

    def test_one_row_at_a_time_is_no_double(self, spark):
        """Whatever happens to it: each of these to a key of its own."""
        replaced = [(1, 5, "delete", 4), (1, 6, "insert", 4)]
        came_and_went_twice = [(2, 5, "insert", 4), (2, 5, "delete", 5), (2, 6, "insert", 6), (2, 6, "delete", 7)]
        went_came_went = [(3, 5, "delete", 4), (3, 6, "insert", 5), (3, 6, "delete", 6)]
        updated_five_times = [(4, 5 + at, kind, 4 + at) for at in range(5) for kind in (BEFORE, AFTER)]
        became_another_and_came_back = [(5, 5, BEFORE, 4), (6, 5, AFTER, 4), (6, 5, BEFORE, 5), (5, 5, AFTER, 5)]
        rows = [
            *replaced, *came_and_went_twice, *went_came_went, *updated_five_times, *became_another_and_came_back,
        ]  # fmt: skip

        assert check_net_changes(net(spark, rows), ("id",)) == 6

    def test_of_several_columns(self, spark):
        """Only all of them together are the key; a null among them is a value like any other here."""
        columns = "id long, part string, _change_type string, _commit_version long"
        rows = [(1, "a", "insert", 4), (1, "b", "insert", 4), (2, "a", "insert", 4)]

        assert check_net_changes(net(spark, rows, key=("id", "part"), columns=columns), ("id", "part")) == 3


class TestANullInTheKey:
    """A MERGE finds it never, and would add its row again at each change."""

    def test_an_added_row_is_refused(self, spark):
        """The error names the column and finds the row by its hash."""
        columns = "id long, part string, _change_type string, _commit_version long"
        rows = [(1, "a", "insert", 4), (7, None, "insert", 4)]

        with pytest.raises(
            KeyInvalidError, match=r"'part' is null in 1 changed rows, as where xxhash64\(id, part\) = -?\d+\."
        ):
            check_net_changes(net(spark, rows, key=("id", "part"), columns=columns), ("id", "part"))

    def test_one_that_is_gone_or_filtered_out_does_not_matter(self, spark):
        """A null that never reaches the target harms no row."""
        rows = [(None, 50, "insert", 4), (None, 50, "delete", 5), (1, 50, "insert", 4)]
        filtered = [(None, 5, "insert", 4), (1, 50, "insert", 4)]

        assert check_net_changes(net(spark, rows), ("id",)) == 2
        assert check_net_changes(net(spark, filtered, PASSING), ("id",)) == 1


class TestColumns:
    """Names are anybody's; ours do not leak into the output."""

    def test_a_star_brings_no_columns_of_the_feed(self, spark):
        """`*` means the columns of the source."""
        rows = [(1, 5, "insert", 4)]
        starred = Transform(("*", "amount * 2 AS twice"))
        changes = spark.createDataFrame(rows, COLUMNS)

        assert net(spark, rows, starred).columns[:4] == ["id", "amount", "twice", DELETE]
        assert changelog_rows(changes, starred, key=("id",), epoch=1).columns == [
            "id", "amount", "twice", "_op", "_epoch", "_version",
        ]  # fmt: skip
        assert append_rows(changes).columns == ["id", "amount"]

    def test_names_of_the_feed_may_be_columns_of_the_target(self, spark):
        """Also where an expression uses what another one gives under such a name: history knows no column of the feed."""
        renamed = Transform(("id", "amount * 2 AS _change_type", "_change_type + 1 AS _commit_version"))
        changes = spark.createDataFrame([(1, 5, "insert", 4)], COLUMNS)

        merged, logged = (
            net(spark, [(1, 5, "insert", 4)], renamed),
            changelog_rows(changes, renamed, key=("id",), epoch=1),
        )
        images = merged.select("id", "_change_type", "_commit_version").unionAll(
            logged.select("id", "_change_type", "_commit_version")
        )
        assert images.collect() == [(1, 10, 11), (1, 10, 11)]
        assert [(row["_op"], row["_version"]) for row in logged.collect()] == [("insert", 4)]

    @pytest.mark.parametrize("name", ["a.b", "a b", "a`b", "ä-ö", "select", "row", "1"])
    def test_any_name_will_do(self, spark, name):
        """A name with a dot or a quote is legal in Delta."""
        columns = ["id", name, "_change_type", "_commit_version"]
        changes = spark.createDataFrame([(1, 5, "insert", 4)], columns)

        merged = net_changes(changes, ALL, (name,)).localCheckpoint()
        assert (check_net_changes(merged, (name,)), merged.collect()[0][name]) == (1, 5)
        logged = changelog_rows(changes, Transform(None, "id > 0"), key=(name,), epoch=1).collect()
        assert [(row[name], row["_op"]) for row in logged] == [(5, "insert")]

    def test_nested_values_come_through(self, spark):
        """A change carries whole values, also nested ones."""
        columns = (
            "id long, m map<string, array<int>>, s struct<a: timestamp>, _change_type string, _commit_version long"
        )
        rows = spark.createDataFrame([(1, {"k": [1, None]}, (None,), "insert", 4)], columns)

        row = net_changes(rows, ALL, ("id",)).collect()[0]
        assert (row["m"], row["s"]["a"]) == ({"k": [1, None]}, None)


class TestAHalfWithoutTheOther:
    """R-ARR-17: what the filter left of an update is a delete or an insert; pairs stay pairs."""

    FILTER = Transform(None, "amount > 10")

    def logged(self, spark, rows, transform=FILTER, key=("id",)):
        found = changelog_rows(spark.createDataFrame(rows, COLUMNS), transform, key=key, epoch=3)
        return sorted((row["id"], row["amount"], row["_op"], row["_version"]) for row in found.collect())

    def test_is_told_as_what_it_is(self, spark):
        """A reader must not see half of an update."""
        rows = [(1, 5, BEFORE, 2), (1, 50, AFTER, 2), (2, 60, BEFORE, 2), (2, 6, AFTER, 2)]

        assert self.logged(spark, rows) == [(1, 50, "insert", 2), (2, 60, "delete", 2)]

    def test_pairs_stay_pairs(self, spark):
        """An update of which both halves pass stays an update."""
        rows = [(1, 50, BEFORE, 2), (1, 60, AFTER, 2), (1, 60, BEFORE, 3), (1, 6, AFTER, 3)]

        assert self.logged(spark, rows) == [(1, 50, BEFORE, 2), (1, 60, "delete", 3), (1, 60, AFTER, 2)]

    def test_a_pair_of_which_nothing_passes_is_not_told(self, spark):
        """The filtered table never held either half."""
        assert self.logged(spark, [(1, 5, BEFORE, 2), (1, 6, AFTER, 2)]) == []

    def test_a_changed_key_has_no_pair(self, spark):
        """Two keys are two rows."""
        rows = [(1, 50, BEFORE, 2), (2, 50, AFTER, 2)]

        assert self.logged(spark, rows) == [(1, 50, "delete", 2), (2, 50, "insert", 2)]

    def test_without_a_key_there_are_no_pairs(self, spark):
        """A delete and an insert say the same and are always right."""
        rows = [(1, 50, BEFORE, 2), (1, 60, AFTER, 2)]
        expected = [(1, 50, "delete", 2), (1, 60, "insert", 2)]

        assert self.logged(spark, rows, key=()) == expected
        assert (
            self.logged(spark, rows, Transform(("id AS other", "id", "amount"), "amount > 10"), key=("nn",)) == expected
        )

    def test_without_a_filter_nothing_is_retold(self, spark):
        """The feed of the source is right as it is."""
        rows = [(1, 50, BEFORE, 2), (2, 50, AFTER, 2)]

        assert self.logged(spark, rows, ALL, key=()) == [(1, 50, BEFORE, 2), (2, 50, AFTER, 2)]

    @pytest.mark.parametrize("key", [("id",), ()])
    @pytest.mark.parametrize("seed", range(3))
    def test_who_applies_all_of_it_has_the_filtered_table(self, spark, seed, key):
        """Removals before additions, version by version; each removal finds its row."""
        chance = random.Random(seed)
        table, feed = {}, []
        for version in range(1, 9):
            after, _ = play(table, version, chance, 12)
            feed += net_of_version(table, after, version)
            table = after
        held, removals = {}, ("delete", BEFORE)
        rows = changelog_rows(spark.createDataFrame(feed, COLUMNS), self.FILTER, key=key, epoch=1).collect()

        for row in sorted(rows, key=lambda row: (row["_version"], row["_op"] not in removals)):
            if row["_op"] in removals:
                assert held.pop(row["id"]) == row["amount"]
            else:
                held[row["id"]] = row["amount"]
        assert held == {key: value for key, value in table.items() if value > 10}
