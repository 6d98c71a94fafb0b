"""Columns that give their dictionary up are found out from staged files, and later files are spared the attempt (ADR 0030)."""

from pathlib import Path

import pytest

from backfill_spark.rows.write_modes import APPEND
from backfill_spark.sinks.delta.dictionaries import (
    TELLING_ROWS,
    TRY_EVERY,
    Chunk,
    Dictionaries,
    given_up,
    options,
    read_chunks,
)
from backfill_spark.sinks.delta.sink import DeltaSink

ROWS = TELLING_ROWS + 5_000


class TestWhatAFileHasGivenUp:
    """Only what surely is not worth it: who is not tried again may be stored worse."""

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
    def test_is_what_kept_it_nowhere(self, chunks, columns):
        """A column that keeps one somewhere may keep it again."""
        assert given_up(Chunk(*one) for one in chunks) == columns


class TestWhenAllIsTried:
    """At first, and now and then again: a table may change its ways further on."""

    GAVE_UP = (Chunk("a", 9, 0, False),)

    def test_until_a_file_has_told(self):
        """A guess before the first file would store some columns badly."""
        known = Dictionaries()
        assert (known.next_write(), known.next_write()) == (None, None)

        known.learn(self.GAVE_UP, TELLING_ROWS - 1)
        assert known.next_write() is None
        known.learn(self.GAVE_UP, TELLING_ROWS)
        assert known.next_write() == {"a"}

    def test_again_and_again(self):
        """Values further on may repeat after all."""
        known = Dictionaries()
        known.learn(self.GAVE_UP, TELLING_ROWS)
        tried = [known.next_write() is None for _ in range(3 * TRY_EVERY)]

        assert [at + 1 for at, one in enumerate(tried) if one] == [TRY_EVERY, 2 * TRY_EVERY, 3 * TRY_EVERY]

    def test_and_what_keeps_one_then_is_not_spared_any_more(self):
        """A saved attempt is worth less than a smaller file."""
        known = Dictionaries()
        known.learn(self.GAVE_UP, TELLING_ROWS)
        known.learn((Chunk("a", 9, 0, True),), TELLING_ROWS)

        assert known.next_write() == frozenset()

    def test_names_are_parquets(self):
        """Parquet ignores an option whose name it does not know."""
        assert options({"b.c", "a"}) == {
            "parquet.enable.dictionary#a": "false",
            "parquet.enable.dictionary#b.c": "false",
        }


class TestStagedFiles:
    """Read back from their footers."""

    @pytest.fixture
    def staged(self, spark, tmp_path):
        """Stages rows whose `Key` and `nested.deep` repeat every so many rows; returns the columns with a dictionary."""
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
            chunks, found = read_chunks(spark, file)
            assert found == rows
            return {chunk.column for chunk in chunks if chunk.has_dictionary}

        return stage

    def test_are_spared_what_the_first_gave_up_until_all_is_tried_again(self, staged):
        """The saving must be seen in real files."""
        first, second = staged(ROWS), staged(3)
        later = [staged(3, rows=10) for _ in range(3, TRY_EVERY)]

        assert first == {"sku"}
        assert second == {"sku"}, "values that repeat would have kept a dictionary: it was not tried"
        assert all("Key" not in kept for kept in later)
        assert staged(3) == {"Key", "nested.deep", "sku"}
        assert staged(3) == {"Key", "nested.deep", "sku"}

    def test_of_few_rows_say_nothing_of_larger_ones(self, staged):
        """In ten rows nothing repeats."""
        staged(50, rows=50)

        assert staged(3) == {"Key", "nested.deep", "sku"}
