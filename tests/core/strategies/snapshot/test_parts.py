"""A batch that is too large for one MERGE, driven by hand: one commit a part, and receipts wait for the last part."""

from __future__ import annotations

import json
from typing import Any

from support.simulation.hand_driven import HandDriven

from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_core.protocol.commands import Pause, Resume, VerifyNow
from backfill_core.protocol.events import CommandReceived, Head, WorkFinished
from backfill_core.protocol.work import ApplyChanges, ChangesApplied, ChangesCut, Verify

IDS = KeyOrder((KeyColumn("id", "long"),))
CUTS = ((10,), (20,))
PART_BYTES = 1000


def following() -> HandDriven:
    """Return a job that has copied its only file, and has announced a batch with versions 4 and 5."""
    job = HandDriven(100, follow=True, part_bytes=PART_BYTES)
    job.let_pass(0.1)
    job.finish_split()
    job.head = Head(5, job.now.wall_ms)
    job.let_pass(3.0)
    return job


def cut(job: HandDriven) -> ApplyChanges:
    """Answer the batch with cuts; return it."""
    (whole,) = job.batches
    job.send(WorkFinished(ChangesCut(whole.work_id, IDS, CUTS)))
    job.let_pass(1.5)
    return whole


def merge_part(job: HandDriven) -> None:
    """Finish the newest part; its commit announces the next one."""
    job.send(WorkFinished(ChangesApplied(job.batches[-1].work_id, 7)))
    job.let_pass(0.1)


def stored(job: HandDriven) -> dict[str, Any]:
    """Return the strategy's part of the newest state."""
    progress: dict[str, Any] = json.loads(job.states[-1])["snapshot"]
    return progress


class TestABatchInParts:
    """A barrier waits for one part, and a kill loses one part."""

    def test_a_batch_above_the_bound_is_merged_part_by_part(self) -> None:
        """R-PART-2, R-PART-4, R-PART-5: each part has its own MERGE and commit, and only the last one consumes the versions."""
        job = following()
        whole = cut(job)
        seen = []
        for _ in range(3):
            seen.append((stored(job)["consumed"], stored(job)["parts"]["done"], stored(job)["merging"] is None))
            merge_part(job)

        assert (whole.part, whole.part_bytes) == (None, PART_BYTES)
        ranges = [(work.part.low, work.part.high) for work in job.batches if work.part is not None]
        assert ranges == [(None, (10,)), ((10,), (20,)), ((20,), None)]
        assert {(work.after, work.upto, work.part_bytes) for work in job.batches[1:]} == {(3, 5, None)}
        assert seen == [(3, 0, True), (3, 1, True), (3, 2, False)]
        assert ("parts" in stored(job), stored(job)["consumed"]) == (False, 5)
        assert job.view.changes_done == 21

    def test_versions_that_arrive_between_parts_do_not_prolong_the_catch_up(self) -> None:
        """R-SNAP-31: the catch-up ends with the changes that were pending when the batch began. It once never ended."""
        job = HandDriven(100, follow=True, part_bytes=PART_BYTES)
        job.let_pass(0.1)
        job.head = Head(5, job.now.wall_ms)
        job.finish_split()
        job.let_pass(3.0)
        cut(job)
        assert stored(job)["phase"] != "Live"
        for _ in range(3):
            job.head = Head(job.head.position + 1, job.now.wall_ms)
            job.let_pass(1.1)
            merge_part(job)
        job.let_pass(1.5)

        assert (stored(job)["consumed"], stored(job)["phase"]) == (5, "Live")

    def test_the_position_is_shown_while_parts_are_merged(self) -> None:
        """`status` shows it with a driver and, from the stored state, without one."""
        job = following()
        cut(job)
        merge_part(job)

        assert job.view.strategy.position == "1 of 3 parts of the changes up to version 5, up to id = 10"
        assert job.view.reason == "merging the changes of versions 4 to 5, part 2 of 3"

    def test_a_receipt_waits_for_the_last_part(self) -> None:
        """R-PART-6: between two parts the target has the rows of no version."""
        job = following()
        cut(job)
        merge_part(job)

        job.send(CommandReceived(1, 1, VerifyNow()))
        merge_part(job)
        early = list(job.receipts)
        merge_part(job)
        job.let_pass(1.5)

        assert early == []
        assert [work.position for work in job.receipts] == [5]
        assert [ack.outcome for ack in job.acks] == ["Applied"]

    def test_a_pause_between_parts_keeps_the_position(self) -> None:
        """The announcement is withdrawn, and the same part is announced again."""
        job = following()
        cut(job)
        merge_part(job)
        before = job.batches[-1]
        job.send(CommandReceived(1, 1, Pause(everything=True)))
        merge_part(job)
        job.let_pass(2.0)
        paused = stored(job)["parts"]

        job.send(CommandReceived(1, 2, Resume()))
        job.let_pass(2.0)

        assert (paused["done"], paused["txn"]) == (2, None)
        assert job.batches[-1] is not before
        assert job.batches[-1].part is not None
        assert job.batches[-1].part.low == (20,)


class TestABatchBelowTheBound:
    """Its job does not change."""

    def test_its_receipt_is_taken_at_once(self) -> None:
        """R-PART-4, R-PART-6: only a batch in parts delays a receipt."""
        job = following()
        job.send(WorkFinished(ChangesApplied(job.batches[-1].work_id, 7)))
        job.send(CommandReceived(1, 1, VerifyNow()))
        job.let_pass(1.5)

        assert [type(work) for work in job.receipts] == [Verify]
