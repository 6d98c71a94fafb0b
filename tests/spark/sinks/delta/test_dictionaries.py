"""Staged files show which columns abandon their dictionary; later files skip the attempt (ADR 0030)."""

from pathlib import Path

import pytest

from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.dictionaries import (
    TELLING_ROWS,
    TRY_EVERY,
    ColumnChunk,
    Dictionaries,
    given_up,
    options,
    read_chunks,
)
from backfill_spark.sinks.delta.sink import DeltaSink

ROWS = TELLING_ROWS + 5_000


class TestWhatAFileHasGivenUp:
    """A file proves only clear cases: a column without another attempt may be stored in more bytes."""

    @pytest.mark.parametrize(
        ("chunks", "columns"),
        [
            ([("a", 9, 0, False), ("b", 9, 0, True)], {"a"}),
            ([("a", 9, 0, False), ("a", 9, 0, True)], set()),
            ([("a", 9, 0, False), ("a", 9, 9, False)], set()),
            ([("a", 9, 8, False)], {"a"}),
            ([], set()),
        ],
        ids=["one of two", "not in every row group", "nulls say nothing", "few values", "no rows"],
    )
    def test_a_column_gave_up_if_no_row_group_kept_a_dictionary(self, chunks, columns):
        """A column that keeps a dictionary in one row group may keep it again."""
        assert given_up(ColumnChunk(*fields) for fields in chunks) == columns


class TestWhenAllIsTried:
    """All columns are tried at first and then now and then, because later rows may differ."""

    GAVE_UP = (ColumnChunk("a", 9, 0, False),)

    def test_all_columns_are_tried_until_a_file_has_enough_rows(self):
        """A guess before the first file would store some columns badly."""
        dictionaries = Dictionaries()
        assert (dictionaries.next_write(), dictionaries.next_write()) == (None, None)

        dictionaries.learn(self.GAVE_UP, TELLING_ROWS - 1)
        assert dictionaries.next_write() is None
        dictionaries.learn(self.GAVE_UP, TELLING_ROWS)
        assert dictionaries.next_write() == {"a"}

    def test_all_columns_are_tried_again_and_again(self):
        """Later values may repeat."""
        dictionaries = Dictionaries()
        dictionaries.learn(self.GAVE_UP, TELLING_ROWS)
        tried = [dictionaries.next_write() is None for _ in range(3 * TRY_EVERY)]

        assert [at + 1 for at, is_try in enumerate(tried) if is_try] == [TRY_EVERY, 2 * TRY_EVERY, 3 * TRY_EVERY]

    def test_a_column_that_keeps_its_dictionary_later_gets_one_again(self):
        """A smaller file is worth more than a saved attempt."""
        dictionaries = Dictionaries()
        dictionaries.learn(self.GAVE_UP, TELLING_ROWS)
        dictionaries.learn((ColumnChunk("a", 9, 0, True),), TELLING_ROWS)

        assert dictionaries.next_write() == frozenset()

    def test_option_names_are_those_of_parquet(self):
        """Parquet ignores unknown options."""
        assert options({"b.c", "a"}) == {
            "parquet.enable.dictionary#a": "false",
            "parquet.enable.dictionary#b.c": "false",
        }


class TestStagedFiles:
    """The tests read the footers of staged files."""

    @pytest.fixture
    def staged(self, spark, tmp_path):
        """Stage rows whose `Key` and `nested.deep` repeat after the given number; return the columns with a dictionary."""
        sink = DeltaSink(spark, str(tmp_path / "t"), write_mode=APPEND, key=(), job_id="j")
        numbers = iter(range(1, 1000))

        def stage(repeats_every, rows=ROWS):
            frame = spark.range(0, rows, 1, 1).selectExpr(
                f"id % {repeats_every} * 7919 AS Key",
                f"named_struct('deep', sha1(cast(id % {repeats_every} AS string))) AS nested",
                "concat('sku', id % 9) AS sku",
                "cast(null AS string) AS nothing",
            )
            if not Path(sink.path).exists():
                sink.prepare(frame.schema)
            (file,) = sink.stage(frame, attempt=1, work_id=next(numbers))
            chunks, rows_read = read_chunks(spark, file)
            assert rows_read == rows
            return {chunk.column for chunk in chunks if chunk.has_dictionary}

        return stage

    def test_later_files_skip_the_attempt_until_all_is_tried_again(self, staged):
        """Real files must show the saving."""
        first, second = staged(ROWS), staged(3)
        later = [staged(3, rows=10) for _ in range(3, TRY_EVERY)]

        assert first == {"sku"}
        assert second == {"sku"}, "values that repeat would have kept a dictionary: it was not tried"
        assert all("Key" not in kept for kept in later)
        assert staged(3) == {"Key", "nested.deep", "sku"}
        assert staged(3) == {"Key", "nested.deep", "sku"}

    def test_files_of_few_rows_prove_nothing_about_larger_ones(self, staged):
        """No value repeats in ten rows."""
        staged(50, rows=50)

        assert staged(3) == {"Key", "nested.deep", "sku"}
