"""The driver reads the log, writes what the core decides, and reads again, whatever happens in between; on a log in memory."""

from dataclasses import replace
from functools import partial

import pytest
from support.endings import assert_ending
from support.source_fence.memory_log import MemoryLog, table_head

from backfill_api.load import load_backfill
from backfill_core.errors import AwayError, InvalidSpecError, PermissionDeniedError, TransientError
from backfill_core.source_fence.fence import Request
from backfill_spark.driver.fence import fence_log, fence_source, unfence_log
from backfill_spark.settings import DriverSettings

OURS = Request("shop/orders", "2026-11-26T22:00:00Z", 1_795_000_000_000, "entry-1", "change 4711")


class UnansweredLog(MemoryLog):
    """The first put reaches the log, and its answer is lost."""

    def put(self, entry):
        """Add the entry, and fail once."""
        missing = len(self.heads) == 1
        super().put(entry)
        if missing:
            raise AwayError("the log of /lake/orders cannot be written: timed out.")


class OverwritingLog(MemoryLog):
    """Another process replaces the first entry with its own commit, as a check with a later rename allows on a local disk."""

    def put(self, entry):
        """Add the entry, and replace the first one."""
        first = len(self.heads) == 1
        super().put(entry)
        if first:
            self.heads[-1] = replace(self.heads[0], version=self.heads[-1].version)
            self.operations[-1] = "WRITE"


class ReadOnlyLog(MemoryLog):
    """This user may not write."""

    def check(self):
        """Refuse."""
        raise PermissionDeniedError("the log of /lake/orders cannot be written.", hint="Grant write access.")


class TestConcurrentWriters:
    """The command follows them, each time from the newest protocol and metadata."""

    def test_a_fence_follows_commits_that_land_first(self):
        """The version of the fence is the version that was written, not the first one that was tried."""
        log = MemoryLog(table_head())
        log.before_put = [log.write] * 3

        done = fence_log(log, OURS, timeout_s=60)

        assert (done.fence.version, done.entries) == (8, 4)
        assert log.operations == ["CREATE", "WRITE", "WRITE", "WRITE", "FENCE"]
        assert (done.protocol_before, done.protocol) == (
            "reader version 1, writer version 2",
            "reader version 1, writer version 7, appendOnly, backfill.fenced, invariants",
        )

    def test_a_property_that_lands_first_stays(self):
        """The metadata of an entry is that of the version before it."""
        log = MemoryLog(table_head())

        def rename():
            head = log.head()
            configuration = {**head.properties, "owner": "finance"}
            log.heads.append(
                replace(head, version=head.version + 1, metadata={**head.metadata, "configuration": configuration})
            )
            log.operations.append("SET TBLPROPERTIES")

        log.before_put = [rename]

        fence_log(log, OURS, timeout_s=60)

        assert log.head().properties["owner"] == "finance"
        assert log.head().fence.version == 6

    def test_a_fence_ends_in_time_if_others_always_commit_first(self):
        """The table is as the other writers left it."""
        log = MemoryLog(table_head())
        log.before_put = [log.write] * 1000

        with pytest.raises(TransientError, match="committed first 1 time within 0 s") as ended:
            fence_log(log, OURS, timeout_s=0)

        assert_ending(ended.value, "Transient")
        assert log.operations == ["CREATE", "WRITE"]


class TestLostAnswers:
    """The log contains the truth, whatever a call returned."""

    def test_the_next_call_finds_a_fence_whose_answer_was_lost(self):
        """It is the same fence, and there is no second entry."""
        log = UnansweredLog(table_head())

        with pytest.raises(AwayError):
            fence_log(log, OURS, timeout_s=60)
        again = fence_log(log, OURS, timeout_s=60)

        assert (again.fence.version, again.entries) == (5, 0)
        assert log.operations == ["CREATE", "FENCE"]

    def test_an_entry_that_another_process_replaced_is_written_again(self):
        """Success is never reported from the put alone."""
        log = OverwritingLog(table_head())

        done = fence_log(log, OURS, timeout_s=60)

        assert (done.fence.version, log.operations) == (6, ["CREATE", "WRITE", "FENCE"])

    def test_an_unfence_whose_answer_was_lost_is_not_repeated(self):
        """The second call finds the table without a fence."""
        log = MemoryLog(table_head())
        fence_log(log, OURS, timeout_s=60)
        lost = UnansweredLog(log.head())

        with pytest.raises(AwayError):
            unfence_log(lost, OURS, force=False, timeout_s=60)
        again = unfence_log(lost, OURS, force=False, timeout_s=60)

        assert (again.version, again.entries, again.lifted) == (6, 0, None)


class TestWithoutTheRightToWrite:
    """The right is needed only for an entry."""

    def test_a_user_who_may_not_write_is_refused_before_the_entry(self):
        """Nothing is written."""
        log = ReadOnlyLog(table_head())

        with pytest.raises(PermissionDeniedError):
            fence_log(log, OURS, timeout_s=60)

        assert log.operations == ["CREATE"]

    @pytest.mark.parametrize("call", [fence_log, partial(unfence_log, force=False)])
    def test_an_answer_that_is_in_the_log_needs_no_right(self, call):
        """As after a kill, on a machine that may only read."""
        log = MemoryLog(table_head())
        if call is fence_log:
            fence_log(log, OURS, timeout_s=60)

        assert call(ReadOnlyLog(log.head()), OURS, timeout_s=60).entries == 0


class TestSourcesWithoutALog:
    """A topic has producers, and no log that they all read."""

    def test_a_topic_is_refused_before_spark_starts(self, tmp_path):
        """The message names the field."""
        spec = load_backfill(
            {
                "apiVersion": "backfill.dev/v1alpha1",
                "kind": "Backfill",
                "metadata": {"name": "job"},
                "spec": {
                    "source": {"type": "Kafka", "kafka": {"bootstrapServers": "broker:9092", "topic": "orders"}},
                    "target": {"type": "Delta", "delta": {"path": "/lake/copy"}},
                    "strategy": {"type": "SourceSplits"},
                },
            }
        )

        with pytest.raises(InvalidSpecError, match=r"spec\.source\.type: Kafka has no log") as refused:
            fence_source(spec, settings=DriverSettings(state_dir=tmp_path), reason="r")

        assert_ending(refused.value, "InvalidSpec")
