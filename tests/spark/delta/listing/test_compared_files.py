"""Tests of the memory of comparisons of many files; the entries of files in the log have a kilobyte each."""

import json
import tracemalloc

from backfill_core.file_copies.copy_digest import CopyDigest, statistics_digest
from backfill_core.file_copies.proof import LoggedCopy, Same, paired, proven
from backfill_core.log_shipping.actions import FileAdded
from backfill_core.log_shipping.replaced_files import ExpectedCopy, replaced_in_replica
from backfill_core.log_shipping.target_files import TargetFile
from backfill_core.positions.source_names import RowOrder, name_of
from backfill_spark.delta.listing.logged_files import LoggedFiles
from backfill_spark.receipts.file_digests import existing_files

FILES, ENTRY_BYTES = 500, 20_000
KEPT_BYTES_MAX = 4_000
"""Most bytes in memory for each file: without its entry."""

STATISTICS = json.dumps({"numRecords": 9, "minValues": {"text": "x" * ENTRY_BYTES}})


def peak_bytes(compare):
    """Return the growth of the memory during a call, in bytes for each file, and its result."""
    tracemalloc.start()
    try:
        result = compare()
        return tracemalloc.get_traced_memory()[1] / FILES, result
    finally:
        tracemalloc.stop()


def entry(at):
    """Return the entry of the copy of a source file, as a line of a commit."""
    tags = CopyDigest("0a0b0c0d", statistics_digest(STATISTICS)).tags
    path = f"s1/{name_of(str(at), RowOrder.KEPT, '0')}"
    add = {"path": path, "size": 10, "partitionValues": {"day": "1"}, "stats": STATISTICS, "tags": tags}
    return json.dumps({"add": add})


class TestMemory:
    """The memory of a comparison holds facts about each file, but not the entries of the log."""

    def test_a_receipt_keeps_no_entry_of_the_target(self):
        """Statistics are needed only for their digest."""
        listing = LoggedFiles(map(entry, range(FILES)), ())
        source = (LoggedCopy(str(at), 10, 9, {"day": "1"}, None) for at in range(FILES))

        used, proof = peak_bytes(
            lambda: proven(paired(source, existing_files(listing, {"day": "string"})), [Same()] * FILES)
        )

        assert proof.files == FILES
        assert used < KEPT_BYTES_MAX

    def test_a_repair_keeps_only_entries_of_files_that_it_copies(self):
        """All other files of the source are compared one by one."""
        expected = (
            ExpectedCopy(FileAdded(str(at), 10, 9, True, None, f"{at}" + "x" * ENTRY_BYTES), {}) for at in range(FILES)
        )
        target = [TargetFile(f"s1/{name_of(str(at), RowOrder.KEPT, '0')}", None, "{}", 10) for at in range(FILES)]

        used, step = peak_bytes(lambda: replaced_in_replica(expected, target, {target[7].path}))

        assert [copy.file.path for copy in step.copies] == ["7"]
        assert used < KEPT_BYTES_MAX

    def test_equal_partition_values_of_copies_are_one_object(self):
        """A table by day has a million files and a few hundred days."""
        copies = existing_files(LoggedFiles(map(entry, range(FILES)), ()), {"day": "string"})

        assert len({id(file.partition) for file in copies}) == 1
