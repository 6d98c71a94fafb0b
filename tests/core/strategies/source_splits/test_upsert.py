"""A topic into a target with one row per key: each partition in its order, one announced MERGE after the other."""

from __future__ import annotations

import json

import pytest
from support.source_splits.merges_by_hand import Driven, topic

from backfill_core.errors import StateMismatchError
from backfill_core.job.state import SIZE_MAX_BYTES
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.epochs import Epoch
from backfill_core.protocol.events import Head, LimitSet, SourcePolled, WorkFinished, WorkLost
from backfill_core.protocol.work import (
    BadRecordsAside,
    MergeOffsetRanges,
    OffsetRangesMerged,
    SetBadRecordsAside,
    StagedFile,
    WorkKind,
)
from backfill_core.strategies.source_splits.split import Split
from backfill_core.strategies.source_splits.stored import HISTORY, AnnouncedRanges, SourceSplitsStored, decode

BAD = StagedFile("bad", 10, 1, quarantined_by=1)


class TestAnOpenTransaction:
    """The last record of a key may be behind an open transaction (fault B8)."""

    def test_an_open_transaction_is_awaited_and_then_left_out_by_name(self) -> None:
        """A job that exits waits for the configured time."""
        job = Driven(topic(p0=5), open_transaction_s=5)
        job.machine.on(SourcePolled(Head({"0": 5}, 0, "topic", None, {"0": 9})), job.now)
        job.merge()
        job.commit()
        waiting = job.machine.status
        for _ in range(5):
            job.commit()

        assert (waiting.complete, job.machine.status.complete) == (False, True)
        assert job.machine.status.cut_off == (OffsetRange("0", 5, 9),)


class TestAPartition:
    """R-SRC-20: the last offset of a key wins, so no record may overtake another."""

    def test_a_partition_is_merged_in_its_order(self) -> None:
        """New records wait for the history of their own partition only: the two sides take turns."""
        job = Driven(topic(p0=10, p1=4), read_max=4, share_min=4)
        job.see({"0": 12, "1": 6})

        taken = [job.merge() for _ in range(6)]

        assert [(kind.name, *ranges) for kind, ranges in taken] == [
            ("HISTORY", OffsetRange("0", 0, 4)),
            ("HISTORY", OffsetRange("0", 4, 8)),
            ("HISTORY", OffsetRange("1", 0, 4)),
            ("CHANGES", OffsetRange("1", 4, 6)),
            ("HISTORY", OffsetRange("0", 8, 10)),
            ("CHANGES", OffsetRange("0", 10, 12)),
        ]

    def test_new_records_are_merged_while_history_is_held(self) -> None:
        """R-SRC-31: a pause holds history, but not new records of partitions whose history is complete."""
        job = Driven(topic(p0=10, p1=0))
        job.see({"0": 10, "1": 3})

        assert job.start(history=False) == []
        assert job.commit(history=False).announces
        [work] = job.start(history=False)

        assert (work.kind, work.ranges) == (WorkKind.CHANGES, (OffsetRange("1", 0, 3),))  # type: ignore[attr-defined]


class TestAMerge:
    """A MERGE is a separate commit without the state: the commit before it announces it."""

    def test_a_merge_is_announced_under_the_next_transaction(self) -> None:
        """The MERGE starts once the announcement is durable, and commits wait for it."""
        job = Driven(topic(p0=5))
        assert job.start() == []
        assert job.machine.status.wants_commit

        assert job.commit().announces
        [work] = job.start()

        assert isinstance(work, MergeOffsetRanges)
        assert job.stored["merging"] == {"txn": work.txn_version, "upto": {"0": 5}}
        assert work.txn_version == Epoch(1, 2).txn_version
        assert job.machine.status.blocks_commit
        job.finish(work)
        assert (job.machine.status.blocks_commit, job.machine.status.wants_commit) == (False, True)
        assert (job.commit().rows, "merging" in job.stored) == (1, False)

    @pytest.mark.parametrize(("last_txn", "position"), [(Epoch(1, 2).txn_version, 5), (Epoch(1, 1).txn_version, 0)])
    def test_a_merge_counts_if_the_target_has_its_transaction(self, last_txn: int, position: int) -> None:
        """R-SRC-40: a driver may die before or after the MERGE."""
        job = Driven(topic(p0=5))
        job.start()
        job.commit()

        again = Driven(topic(p0=5), job.stored, last_txn)

        assert again.machine.status.position == {"0": position}

    def test_a_merge_is_announced_again_after_another_commit(self) -> None:
        """A later commit has a higher number than the MERGE; a pause withdraws the announcement."""
        job = Driven(topic(p0=5))
        job.start()
        job.commit()
        first = job.stored["merging"]["txn"]
        job.commit()
        assert job.stored["merging"]["txn"] > first

        job.commit(history=False)

        assert "merging" not in job.stored
        assert job.start(history=False) == []

    def test_a_lost_merge_is_announced_again(self) -> None:
        """Its number is outdated, because later commits have higher numbers."""
        job = Driven(topic(p0=5))
        job.start()
        job.commit()
        [work] = job.start()
        job.machine.on(WorkLost(work.work_id), job.now)

        assert job.start() == []
        assert job.commit().announces

    def test_a_merge_waits_for_a_new_limit(self) -> None:
        """R-SRC-33: a new limit withdraws the announcement."""
        job = Driven(topic(p0=50))
        job.start()
        job.commit()
        job.machine.on(LimitSet(2, 1.0), job.now)

        assert job.start() == []
        for _ in range(3):
            job.commit()
            job.start()
        assert job.stored.get("merging", {"upto": {"0": 0}})["upto"]["0"] < 10


class TestBadRecords:
    """ADR 0023, 0022: a MERGE cannot quarantine bad records, so they are set aside first."""

    def test_bad_records_are_in_the_commit_that_announces_the_merge(self) -> None:
        """They are in their own table from then on, and the MERGE skips them."""
        job = Driven(topic(p0=5), sets_aside=True)
        [judging] = job.start()
        assert isinstance(judging, SetBadRecordsAside)
        job.machine.on(WorkFinished(BadRecordsAside(judging.work_id, (BAD,))), job.now)

        request = job.commit()
        [work] = job.start()

        assert (request.files, request.announces, job.stored["aside"]) == ((BAD,), True, {"0": 5})
        assert isinstance(work, MergeOffsetRanges)
        assert work.skips_bad

    def test_bad_records_are_stored_once_when_the_merge_is_repeated(self) -> None:
        """The rule also holds for an attempt that would fail at a bad record."""
        job = Driven(topic(p0=5), sets_aside=True)
        [judging] = job.start()
        job.machine.on(WorkFinished(BadRecordsAside(judging.work_id, (BAD,))), job.now)
        job.commit()

        again = Driven(topic(p0=8), job.stored, sets_aside=False)
        assert again.start() == []
        again.commit()
        [work] = again.start()

        assert isinstance(work, MergeOffsetRanges)
        assert (work.ranges, work.skips_bad) == ((OffsetRange("0", 0, 5),), True)


class TestWhatIsStored:
    """The state survives a round trip or is rejected by field name."""

    @pytest.mark.parametrize("partitions", [3, 1000])
    def test_the_state_survives_a_round_trip(self, partitions: int) -> None:
        """A thousand partitions with an announced MERGE of all of them fit in a state of 64 KiB."""
        names = [str(number) for number in range(partitions)]
        upto = dict.fromkeys(names, 3_000_000)
        splits = dict.fromkeys(names, Split(1_000_000, 2_000_000, 4_000_000, 4_000_000, 900_000))
        state = SourceSplitsStored("topic", HISTORY, splits, AnnouncedRanges(7, upto), upto)

        text = json.dumps(state.encode())

        assert decode(json.loads(text)) == state
        assert len(text) < SIZE_MAX_BYTES - 8192

    @pytest.mark.parametrize(
        "upto",
        [{"1": 5}, {"0": 2}, {"0": 11}, {"0": "5"}, [5], "no base"],
        ids=["unknown", "back", "too far", "text", "list", "packed"],
    )
    def test_impossible_offsets_are_refused(self, upto: object) -> None:
        """A handwritten state must not lose records."""
        value = SourceSplitsStored("topic", HISTORY, {"0": Split(0, 2, 10, 10)}).encode()

        for part in ({"aside": upto}, {"merging": {"txn": 7, "upto": upto}}):
            with pytest.raises(StateMismatchError, match="sourceSplits"):
                decode(value | part)


class TestOversizedRecords:
    """An attempt may end at a record that is too large, so the next one measures, and remembers what it left unread (fault D10)."""

    def test_a_resumed_job_measures_both_reads_of_a_batch_and_stores_the_unread_ranges(self) -> None:
        """The bad records and the MERGE must leave out the same records."""
        job = Driven(topic(p0=10), sets_aside=True)
        job.commit()
        resumed = Driven(topic(p0=10), job.stored, sets_aside=True)
        hole = OffsetRange("0", 3, 4)

        [aside] = resumed.start()
        assert isinstance(aside, SetBadRecordsAside)
        resumed.machine.on(WorkFinished(BadRecordsAside(aside.work_id, (BAD,), (hole,))), resumed.now)
        resumed.commit()
        [merge] = resumed.start()
        assert isinstance(merge, MergeOffsetRanges)

        assert (aside.measures, merge.measures) == (True, True)
        assert decode(resumed.stored).unread == (hole,)

    def test_a_merge_stores_its_unread_ranges(self) -> None:
        """Without a quarantine no other work reads them."""
        job = Driven(topic(p0=10))
        job.commit()
        [merge] = job.start()
        job.machine.on(
            WorkFinished(OffsetRangesMerged(merge.work_id, 1, {"0": 10}, (OffsetRange("0", 3, 4),))), job.now
        )
        job.commit()

        assert decode(job.stored).unread == (OffsetRange("0", 3, 4),)
