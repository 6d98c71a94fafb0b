"""Lines of text outside of the heap."""

import os
import tempfile
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from backfill_core.errors import StorageFullError
from backfill_spark.delta.listing.stored_lines import WRITE_BYTES, StoredLines

ODD = ["", "plain", "ümlaut", "\U0001f600", "a\u2028b\x85c", "x" * 5000]


def stored(lines, memory_bytes_max):
    """Return the lines as stored ones."""
    result = StoredLines(memory_bytes_max)
    for line in lines:
        result.append(line)
    return result


class TestStoredLines:
    """Each line is returned unchanged by its number, from memory or from the file."""

    @pytest.mark.parametrize("memory_bytes_max", [10**9, 0, 7, 6000])
    def test_lines_are_returned_unchanged(self, memory_bytes_max):
        """With another bound, another part of them is in the file."""
        lines = ODD * 3

        result = stored(lines, memory_bytes_max)

        assert list(result) == lines
        assert [result[at] for at in reversed(range(len(lines)))] == lines[::-1]
        assert result[2:5] == lines[2:5]

    def test_an_index_outside_is_refused(self):
        """A negative index would silently return a part of another line."""
        result = stored(["a", "b"], 0)

        for at in (-1, 2):
            with pytest.raises(IndexError):
                result[at]

    def test_memory_does_not_grow_with_the_lines(self):
        """A table of a million files has a gigabyte of entries."""
        line = "x" * 1000
        tracemalloc.start()
        try:
            result = stored((line for _ in range(20_000)), WRITE_BYTES)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert peak < 4 * WRITE_BYTES, f"{peak:,} bytes for {len(result) * len(line):,} bytes of lines"

    def test_several_threads_read_at_once(self):
        """Copies on several threads read the entries of their files."""
        lines = [f"{at}-" * (at % 50) for at in range(2000)]
        result = stored(lines, 100)

        with ThreadPoolExecutor(8) as threads:
            read = list(threads.map(result.__getitem__, [*range(len(lines))] * 3))

        assert read == lines * 3

    def test_a_missing_temporary_folder_is_named(self, monkeypatch, tmp_path):
        """The message names the folder, and the job may try again."""
        gone = tmp_path / "gone"
        monkeypatch.setattr(tempfile, "tempdir", str(gone))

        with pytest.raises(StorageFullError, match=str(gone)):
            stored(ODD, 10)

    def test_the_file_has_no_name(self, monkeypatch, tmp_path):
        """Nothing is left in the folder, however the process ends."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

        result = stored(ODD, 10)

        assert os.listdir(tmp_path) == []
        assert list(result) == ODD
