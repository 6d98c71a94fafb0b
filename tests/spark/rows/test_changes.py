"""Net changes for a target: the last image of each key, and the proofs that a key is wrong."""

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
    """Change a table in memory; return it and the changes as a feed records them."""
    changes, table = [], dict(table)
    for _ in range(chance.randrange(1, 6)):
        key = chance.randrange(keys)
        free = [unused for unused in range(keys) if unused not in table]
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
    """Return the changes of one commit as Delta's feed records them."""
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
    """Return a table of 20 keys, the table seven versions later, and the changes in between as a feed records them."""
    chance = random.Random(seed)
    start = table = {key: chance.randrange(100) for key in range(0, 20, 2)}
    feed = []
    for version in range(1, 8):
        after, _ = play(table, version, chance, 20)
        feed += net_of_version(table, after, version)
        table = after
    return start, table, feed


def together(spark, examples, transform=ALL):
    """Return the net changes of each example by its name. One query computes all of them, each with its own key."""
    rows = [(at, *row[1:]) for at, example in enumerate(examples.values()) for row in example]
    changes_by_key = {row["id"]: row for row in net(spark, rows, transform).collect()}
    return {name: changes_by_key[at] for at, name in enumerate(examples)}


class TestChangesBecomeWhatTheTargetMustDo:
    """Net changes merged into the old view give the new view, filter and key changes included (R-SNAP-48)."""

    def test_random_histories_give_the_new_view(self, spark, tmp_path):
        """Four histories with separate keys share one MERGE."""
        start, table, feed = {}, {}, []
        for seed in range(4):
            before, after, changes_of_seed = history(seed)
            start |= {key + 100 * seed: amount for key, amount in before.items()}
            table |= {key + 100 * seed: amount for key, amount in after.items()}
            feed += [(key + 100 * seed, *rest) for key, *rest in changes_of_seed]
        transform = Transform(("id AS key", "amount * 2 AS twice"), "amount >= 30")
        changes = spark.createDataFrame(feed, COLUMNS)
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=UPSERT, key=("key",), job_id="j")
        old = spark.createDataFrame(list(start.items()), "id long, amount long")
        sink.prepare(transform.apply(old).schema)
        transform.apply(old).write.format("delta").mode("append").save(sink.path)

        sink.merge(net_changes(changes, transform, ("key",)).localCheckpoint(), app_id="a", txn_version=1)
        merged = {row["key"]: row["twice"] for row in spark.read.format("delta").load(sink.path).collect()}
        assert merged == {key: 2 * value for key, value in table.items() if value >= 30}

    def test_a_delete_and_an_insert_of_a_key_in_one_version_leave_the_insert(self, spark):
        """The feed has both in any order."""
        changes = spark.createDataFrame(
            [(1, 9, "insert", 4), (1, 5, "delete", 4)],
            "id long, amount long, _change_type string, _commit_version long",
        )

        row = net_changes(changes, ALL, ("id",)).collect()[0]
        assert (row["amount"], row[DELETE]) == (9, False)

    def test_an_append_target_refuses_an_update(self, spark):
        """It cannot remove a row."""
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
"""Changes of one key, and its last image. Versions are compared as numbers: 10 comes after 9."""


@pytest.fixture(scope="module")
def last_images(spark):
    return together(spark, {name: rows for name, (rows, _) in LAST_IMAGES.items()})


class TestTheLastImageOfAKeyWins:
    """Each key has one row: its image after the newest version, or its removal."""

    @pytest.mark.parametrize("name", LAST_IMAGES)
    def test_the_last_image_of_a_key_wins(self, last_images, name):
        """The order of the feed is not the order of changes in a version."""
        row = last_images[name]

        assert (None if row[DELETE] else row["amount"], row[DELETE]) == LAST_IMAGES[name][1]

    def test_a_changed_key_removes_the_old_one(self, spark):
        """Otherwise the target would have the row under both keys."""
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
"""Changes of one key, and True if it is removed where amounts above 10 pass."""


@pytest.fixture(scope="module")
def filtered(spark):
    return together(spark, {name: rows for name, (rows, _) in FILTERED.items()}, PASSING)


class TestTheFilter:
    """A row that does not pass the filter is not in the target."""

    @pytest.mark.parametrize("name", FILTERED)
    def test_an_image_that_does_not_pass_is_removed(self, filtered, name):
        """A condition that is NULL does not pass."""
        assert filtered[name][DELETE] == FILTERED[name][1]

    def test_a_row_that_never_passed_is_no_change(self, spark):
        """A delete of a missing row costs a MERGE."""
        assert net(spark, [(1, 5, "insert", 4), (2, 5, BEFORE, 4), (2, 6, AFTER, 4)], PASSING).count() == 0

    def test_the_filter_guards_every_expression_including_the_keys(self, spark):
        """`100 / n` where `n <> 0`, and then an update to 0: it is not computed, as in the snapshot."""
        guarded = Transform(("100 / amount AS share", "100 DIV amount AS id"), "amount <> 0")
        rows = [(1, 50, BEFORE, 4), (1, 0, AFTER, 4), (2, 0, BEFORE, 4), (2, 10, AFTER, 4), (3, 0, "insert", 5)]
        merged = {row["id"]: (row["share"], row[DELETE]) for row in net(spark, rows, guarded).collect()}
        logged = changelog_rows(spark.createDataFrame(rows, COLUMNS), guarded, key=("id",), epoch=1).collect()

        assert merged == {2: (2.0, True), 10: (10.0, False)}
        assert sorted((row["id"], row["_op"]) for row in logged) == [(2, "delete"), (10, "insert")]

    def test_the_filter_uses_columns_of_the_source_not_of_the_output(self, spark):
        """`where` may name columns that are not selected, or whose name the output gives to something else."""
        rows = net(spark, [(1, 50, "insert", 4)], Transform(("id", "1 AS amount"), "amount > 10")).collect()

        assert [(row["amount"], row[DELETE]) for row in rows] == [(1, False)]

    def test_filtered_rows_double_no_key(self, spark):
        """Only rows of the target can share a key."""
        rows = [(1, 50, "insert", 4), (1, 5, "insert", 4), (1, 6, "insert", 5)]

        assert check_net_changes(net(spark, rows, Transform(None, "amount > 10")), ("id",)) == 1


class TestAKeyThatTwoRowsShare:
    """Changes may prove that two rows share a key, over all versions of a batch."""

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
    def test_a_shared_key_is_found_and_named(self, spark, rows):
        """The error has a condition that finds its rows, and not its values."""
        named = spark.sql("SELECT xxhash64(1L)").first()[0]

        with pytest.raises(DuplicateKeyError, match=re.escape(f"xxhash64(id) = {named}.")):
            check_net_changes(net(spark, rows), ("id",))

    def test_one_row_at_a_time_is_no_double(self, spark):
        """No sequence of changes of a single row counts as two rows. Each of these has its own key."""
        replaced = [(1, 5, "delete", 4), (1, 6, "insert", 4)]
        came_and_went_twice = [(2, 5, "insert", 4), (2, 5, "delete", 5), (2, 6, "insert", 6), (2, 6, "delete", 7)]
        went_came_went = [(3, 5, "delete", 4), (3, 6, "insert", 5), (3, 6, "delete", 6)]
        updated_five_times = [(4, 5 + at, kind, 4 + at) for at in range(5) for kind in (BEFORE, AFTER)]
        became_another_and_came_back = [(5, 5, BEFORE, 4), (6, 5, AFTER, 4), (6, 5, BEFORE, 5), (5, 5, AFTER, 5)]
        rows = [
            *replaced, *came_and_went_twice, *went_came_went, *updated_five_times, *became_another_and_came_back,
        ]  # fmt: skip

        assert check_net_changes(net(spark, rows), ("id",)) == 6

    def test_a_key_of_several_columns_is_compared_as_a_whole(self, spark):
        """Only all columns together are the key. A null among them is here a value like any other."""
        columns = "id long, part string, _change_type string, _commit_version long"
        rows = [(1, "a", "insert", 4), (1, "b", "insert", 4), (2, "a", "insert", 4)]

        assert check_net_changes(net(spark, rows, key=("id", "part"), columns=columns), ("id", "part")) == 3


class TestANullInTheKey:
    """A MERGE never finds such a row, and would add it again at each change."""

    def test_an_added_row_with_a_null_key_is_refused(self, spark):
        """The error names the column and finds the row by its hash."""
        columns = "id long, part string, _change_type string, _commit_version long"
        rows = [(1, "a", "insert", 4), (7, None, "insert", 4)]

        with pytest.raises(
            KeyInvalidError, match=r"'part' is null in 1 changed rows, as where xxhash64\(id, part\) = -?\d+\."
        ):
            check_net_changes(net(spark, rows, key=("id", "part"), columns=columns), ("id", "part"))

    def test_a_null_key_that_is_removed_or_filtered_out_does_not_matter(self, spark):
        """A null that never reaches the target harms no row."""
        rows = [(None, 50, "insert", 4), (None, 50, "delete", 5), (1, 50, "insert", 4)]
        filtered = [(None, 5, "insert", 4), (1, 50, "insert", 4)]

        assert check_net_changes(net(spark, rows), ("id",)) == 2
        assert check_net_changes(net(spark, filtered, PASSING), ("id",)) == 1


class TestColumns:
    """Users may choose any names; the product's own columns never appear in the output."""

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
        """An expression may use another one's output under such a name, because history has no columns of the feed."""
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
    def test_any_column_name_is_accepted(self, spark, name):
        """A name with a dot or a quote is legal in Delta."""
        columns = ["id", name, "_change_type", "_commit_version"]
        changes = spark.createDataFrame([(1, 5, "insert", 4)], columns)

        merged = net_changes(changes, ALL, (name,)).localCheckpoint()
        assert (check_net_changes(merged, (name,)), merged.collect()[0][name]) == (1, 5)
        logged = changelog_rows(changes, Transform(None, "id > 0"), key=(name,), epoch=1).collect()
        assert [(row[name], row["_op"]) for row in logged] == [(5, "insert")]

    def test_nested_values_come_through(self, spark):
        """A change contains whole values, also nested ones."""
        columns = (
            "id long, m map<string, array<int>>, s struct<a: timestamp>, _change_type string, _commit_version long"
        )
        rows = spark.createDataFrame([(1, {"k": [1, None]}, (None,), "insert", 4)], columns)

        row = net_changes(rows, ALL, ("id",)).collect()[0]
        assert (row["m"], row["s"]["a"]) == ({"k": [1, None]}, None)


class TestAHalfWithoutTheOther:
    """R-ARR-17: if one half of an update is filtered out, the other is a delete or an insert. Pairs stay pairs."""

    FILTER = Transform(None, "amount > 10")

    def logged(self, spark, rows, transform=FILTER, key=("id",)):
        log = changelog_rows(spark.createDataFrame(rows, COLUMNS), transform, key=key, epoch=3)
        return sorted((row["id"], row["amount"], row["_op"], row["_version"]) for row in log.collect())

    def test_half_of_an_update_is_logged_as_a_delete_or_an_insert(self, spark):
        """A reader must not see half of an update."""
        rows = [(1, 5, BEFORE, 2), (1, 50, AFTER, 2), (2, 60, BEFORE, 2), (2, 6, AFTER, 2)]

        assert self.logged(spark, rows) == [(1, 50, "insert", 2), (2, 60, "delete", 2)]

    def test_pairs_stay_pairs(self, spark):
        """An update of which both halves pass stays an update."""
        rows = [(1, 50, BEFORE, 2), (1, 60, AFTER, 2), (1, 60, BEFORE, 3), (1, 6, AFTER, 3)]

        assert self.logged(spark, rows) == [(1, 50, BEFORE, 2), (1, 60, "delete", 3), (1, 60, AFTER, 2)]

    def test_a_pair_that_does_not_pass_is_not_logged(self, spark):
        """The filtered table never held either half."""
        assert self.logged(spark, [(1, 5, BEFORE, 2), (1, 6, AFTER, 2)]) == []

    def test_a_changed_key_has_no_pair(self, spark):
        """Two keys are two rows."""
        rows = [(1, 50, BEFORE, 2), (2, 50, AFTER, 2)]

        assert self.logged(spark, rows) == [(1, 50, "delete", 2), (2, 50, "insert", 2)]

    def test_without_a_key_there_are_no_pairs(self, spark):
        """A delete and an insert have the same effect and are always right."""
        rows = [(1, 50, BEFORE, 2), (1, 60, AFTER, 2)]
        expected = [(1, 50, "delete", 2), (1, 60, "insert", 2)]

        assert self.logged(spark, rows, key=()) == expected
        assert (
            self.logged(spark, rows, Transform(("id AS other", "id", "amount"), "amount > 10"), key=("nn",)) == expected
        )

    def test_a_feed_without_a_filter_is_unchanged(self, spark):
        """The source's feed is already right."""
        rows = [(1, 50, BEFORE, 2), (2, 50, AFTER, 2)]

        assert self.logged(spark, rows, ALL, key=()) == [(1, 50, BEFORE, 2), (2, 50, AFTER, 2)]

    @pytest.mark.parametrize("key", [("id",), ()])
    @pytest.mark.parametrize("seed", range(3))
    def test_a_reader_that_applies_all_changes_has_the_filtered_table(self, spark, seed, key):
        """Removals come before additions in each version, and each removal finds its row."""
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
