"""Columns of real Delta tables, filled while a MERGE of Spark and delta-rs write them; delta-rs is the oracle."""

import pytest
from support.tables.jobs import make_kind
from support.tables.logs import actions_in, commit_of, commits_of
from support.tables.oracle import columns_of, opened
from support.tables.other_engine import delete, insert

from backfill_core.errors import (
    FencedError,
    InvalidTransformError,
    TargetSchemaMismatchError,
    UnsupportedTargetFeatureError,
)
from backfill_core.in_place.files import TAG
from backfill_spark.in_place.delta.commits import InPlaceCommitter
from backfill_spark.in_place.delta.live_table import FillRequest
from backfill_spark.in_place.fill import fill_in_place

ROWS = 900
NO_NORM = "CAST(NULL AS VARCHAR) AS norm"
MERGE = """
    MERGE INTO delta.`{}` AS t USING (SELECT explode(array(10, 500, 3000)) AS id) AS s ON t.id = s.id
    WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, part, name) VALUES (s.id, 1, 'n7')"""
NORM = {"norm": "nullif(upper(name), 'N7')"}


def expected(name):
    """Return the value of `NORM` for a row."""
    return None if name == "n7" else name.upper()


def rows_of(path, version=None):
    """Return the rows that delta-rs reads, by id."""
    names = [field.name for field in opened(str(path), version).schema().fields]
    table = [dict(zip(names, row, strict=True)) for row in columns_of(str(path), *names, version=version)]
    rows = {row["id"]: row for row in table}
    assert len(rows) == len(table), "a row is there twice"
    return rows


def commits_that_replace(path, after):
    """Return the versions in which the job replaced files."""
    versions = []
    for version in commits_of(str(path), after):
        adds = [action["add"] for action in actions_in(commit_of(str(path), version)) if "add" in action]
        versions += [version] if any(TAG in (add.get("tags") or {}) for add in adds) else []
    return versions


class Writers:
    """Callback of a job that lets other engines write at given calls, so at the same places in each run."""

    def __init__(self, **at):
        self.at = {int(name.removeprefix("call_")): write for name, write in at.items()}
        self.calls = 0

    def __call__(self):
        self.calls += 1
        if self.calls in self.at:
            self.at.pop(self.calls)()


class KilledError(Exception):
    """The job ends here, as if it was killed."""


class TestALiveTable:
    """Each row gets its value, and no other value changes."""

    def test_is_filled_while_others_hide_remove_and_add_rows(self, spark, tmp_path):
        """A deletion vector goes to the filled copy, and a removed file is found again under its new name."""
        path = tmp_path / "t"
        make_kind(spark, str(path), "deleted")
        before = rows_of(path)
        writers = Writers(
            call_3=lambda: spark.sql(MERGE.format(path)),
            call_4=lambda: delete(str(path), "id = 200"),
            call_5=lambda: insert(str(path), f"SELECT id + 2000 AS id, part, name, {NO_NORM} FROM now WHERE id < 9"),
        )  # fmt: skip

        receipt = fill_in_place(spark, FillRequest(str(path), "ns/job", NORM), check=writers)

        assert not writers.at
        rows = rows_of(path)
        assert rows.keys() == before.keys() - {10, 200, 500} | {3000} | {
            2000 + number for number in before if number < 9
        }
        assert all(row["norm"] == expected(row["name"]) for row in rows.values())
        assert all(rows[number][name] == row[name] for number, row in before.items() if number in rows for name in row)
        assert (receipt.rows, receipt.rows_wrong) == (len(rows), 0)
        assert receipt.progress.files_lost == 1
        assert rows_of(path, receipt.undo_version).keys() == before.keys()

    def test_continues_after_a_kill_and_ends_without_a_commit_if_it_is_filled(self, spark, tmp_path):
        """The log alone holds the progress; null results are not computed again."""
        path = tmp_path / "t"
        make_kind(spark, str(path), "partitioned")
        request = FillRequest(str(path), "ns/job", NORM)

        def kill(progress):
            raise KilledError

        with pytest.raises(KilledError):
            fill_in_place(spark, request, report=kill)
        half = rows_of(path)
        receipt = fill_in_place(spark, request)
        newest = opened(str(path)).version()
        again = fill_in_place(spark, request)

        filled = [row for row in half.values() if row["norm"] is not None]
        assert 0 < len(filled) < ROWS * 0.95
        assert all(row["norm"] == expected(row["name"]) for row in rows_of(path).values())
        assert (receipt.rows, receipt.rows_wrong) == (ROWS, 0)
        assert (again.rows_wrong, again.progress.files_filled) == (0, 0)
        assert commits_that_replace(path, newest) == []

    def test_is_computed_again_after_a_change_of_its_columns(self, spark, tmp_path):
        """Staged files lack the new column's rules; and a newer attempt ends an older one."""
        path = tmp_path / "t"
        make_kind(spark, str(path), "plain")
        request = FillRequest(str(path), "ns/job", NORM)
        alter = f"ALTER TABLE delta.`{path}` ADD COLUMNS (later INT)"

        receipt = fill_in_place(spark, request, check=Writers(call_4=lambda: spark.sql(alter)))

        assert receipt.progress.files_lost > 0
        assert (receipt.rows, receipt.rows_wrong) == (ROWS, 0)
        assert all(row["later"] is None and row["norm"] == expected(row["name"]) for row in rows_of(path).values())
        newer = InPlaceCommitter(spark, str(path), app_id=request.app_id, tag=request.tag)
        lower = FillRequest(str(path), "ns/job", {"low": "lower(name)"})
        with pytest.raises(FencedError):
            fill_in_place(spark, lower, check=Writers(call_4=newer.begin_attempt))

    def test_keeps_column_mapping_and_values_that_the_condition_excludes(self, spark, tmp_path):
        """A renamed column has another name in files."""
        path = tmp_path / "t"
        make_kind(spark, str(path), "renamed")
        request = FillRequest(
            str(path), "ns/job", {"title": "concat(title, '!')"}, where="title LIKE 'n1%' AND title NOT LIKE '%!'"
        )

        receipt = fill_in_place(spark, request)

        titles = {row["id"]: row["title"] for row in spark.read.format("delta").load(str(path)).collect()}
        names = {number: f"n{number % 50}" for number in range(ROWS)}
        assert titles == {number: f"{name}!" if name.startswith("n1") else name for number, name in names.items()}
        assert receipt.rows_wrong == 0


class TestARequest:
    """Rejected by name before a file is read."""

    @pytest.mark.parametrize(
        ("values", "named"),
        [
            ({"part": "part + 1"}, "set.part is a partition column"),
            ({"norm": "rand()"}, "set.norm = 'rand\\(\\)'"),
            ({"norm": "upper(nome)"}, "nome"),
            ({"name": "upper(name)"}, "set.name reads name"),
            ({"norm": "named_struct('a', id)"}, "Add the column"),
        ],
    )
    def test_with_a_column_or_an_expression_that_does_not_fit(self, spark, tmp_path, values, named):
        """The table has no new version afterwards."""
        path = tmp_path / "t"
        make_kind(spark, str(path), "partitioned")

        with pytest.raises(InvalidTransformError, match=named):
            fill_in_place(spark, FillRequest(str(path), "ns/job", values))
        assert opened(str(path)).version() == 0

    def test_of_a_table_with_a_constraint_or_another_type(self, spark, tmp_path):
        """A commit of files does not check constraints."""
        path = tmp_path / "t"
        make_kind(spark, str(path), "plain")
        with pytest.raises(TargetSchemaMismatchError, match="part"):
            fill_in_place(spark, FillRequest(str(path), "ns/job", {"part": "cast(id AS double)"}))
        spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (id < 1000)")

        with pytest.raises(UnsupportedTargetFeatureError, match="small"):
            fill_in_place(spark, FillRequest(str(path), "ns/job", NORM))
