"""Files of a scope by the log of a real table, compared with the rows that Spark reads (ADR 0048)."""

import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from backfill_core.errors import InvalidSpecError, ScopeNotSeparatedError
from backfill_spark.sinks.delta.scope.files import TargetScope
from backfill_spark.sinks.delta.table import read_table

ODD = ("a/b", "x=y", "50%", "it's", "ü ", " lead", "")
ROWS = """
SELECT value AS id, part, arrow_cast(1767225600000000 + value * 3600000000, 'Timestamp(Microsecond, Some("UTC"))') AS at
FROM range({first}, {last}), (SELECT unnest([{parts}]) AS part)
"""


def make(path, *ranges, partitioned=True):
    """Write a table with delta-rs, a commit for each range of ids, whose hours follow each other."""
    parts = ", ".join(["NULL", *("'" + part.replace("'", "''") + "'" for part in ODD)])
    for first, last in ranges:
        rows = QueryBuilder().execute(ROWS.format(first=first, last=last, parts=parts)).read_all()
        write_deltalake(path, rows, mode="append", partition_by=["part"] if partitioned else None)


def removed_rows(spark, path, text):
    """Return the number of rows in the files that a scope removes."""
    scope = TargetScope.of(spark, text, read_table(spark, path))
    return sum(file.rows for file in scope.listing(DeltaTable(path).version()).removed())


class TestFilesOfAScope:
    """A scope removes exactly its rows, or is refused."""

    def test_the_files_hold_the_rows_that_spark_selects(self, spark, tmp_path):
        """Partitions with odd texts and null; timestamps with a zone, also written in another zone."""
        path = str(tmp_path / "t")
        make(path, (0, 24), (24, 48), (48, 72))
        rows = spark.read.format("delta").load(path)
        scopes = [
            *(f"part = {literal!r}" for literal in ODD[:3]),
            "part = 'it\\'s'",
            "part IN ('ü ', ' lead')",
            "part IS NULL",
            "part IS NOT NULL AND at < TIMESTAMP'2026-01-02 00:00:00Z'",
            "at >= TIMESTAMP'2026-01-02 02:00:00+02:00' AND at < TIMESTAMP'2026-01-03 00:00:00Z'",
            "AT >= '2026-01-03 00:00:00Z'",
            "NOT (id < 24) AND part <=> NULL",
            "id BETWEEN 100 AND 200",
        ]

        removed = {text: removed_rows(spark, path, text) for text in scopes}

        assert removed == {text: rows.where(text).count() for text in scopes}

    def test_a_scope_that_files_do_not_separate_is_refused(self, spark, tmp_path):
        """The log has bounds of the files, and no others."""
        path = str(tmp_path / "t")
        make(path, (0, 24), (24, 48), partitioned=False)

        with pytest.raises(ScopeNotSeparatedError, match="1 of 2 files"):
            removed_rows(spark, path, "id < 30")
        assert removed_rows(spark, path, "id < 24") == 24 * (len(ODD) + 1)

    @pytest.mark.parametrize(
        "text", ["hour(at) = 3", "day >", "nothing = 1", "rand() < 1", "at > current_timestamp()", "1 = 1", "id"]
    )
    def test_a_scope_that_files_cannot_decide_is_refused(self, spark, tmp_path, text):
        """The message has the field and the text."""
        path = str(tmp_path / "t")
        make(path, (0, 2))

        with pytest.raises(InvalidSpecError) as refused:
            removed_rows(spark, path, text)

        assert refused.value.message.startswith(f"spec.target.delta.scope = {text!r}")
        assert refused.value.hint
