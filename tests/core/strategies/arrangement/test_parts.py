"""A round whose batch is too large for one MERGE, driven by hand: its parts are merged before any position moves."""

from __future__ import annotations

from support.arrangement.by_hand import ByHand, begun, ids

from backfill_core.positions.vnode_positions import UpTo, VnodePositions
from backfill_core.protocol.work import ApplyChanges, ReadKeyRange

PART_BYTES = 1000


def merging() -> ByHand:
    """Return a job that has copied the keys 0 to 3, and has started a batch that changes all rows."""
    attempt = begun(part_bytes=PART_BYTES)
    attempt.round()
    attempt.round()
    attempt.change(*ids(0, 2, 4, 6, 8, *range(20, 25)))
    attempt.commit()
    attempt.start()
    return attempt


def newest(attempt: ByHand) -> ApplyChanges:
    """Return the newest batch or part."""
    return [work for work in attempt.begun if isinstance(work, ApplyChanges)][-1]


def finish_reads(attempt: ByHand) -> None:
    """Finish the chunks that are being read."""
    for work in [work for work in attempt.running.values() if isinstance(work, ReadKeyRange)]:
        attempt.finish(work)


def finish_part(attempt: ByHand) -> None:
    """Finish the running part; its commit announces the next one, which starts."""
    attempt.finish(newest(attempt))
    attempt.commit()
    attempt.start()


class TestARoundInParts:
    """R-ARR-42 and R-PART-1 to R-PART-5 hold together: each commit is compared with the rows of its state."""

    def test_no_position_moves_before_the_last_part(self) -> None:
        """R-PART-5: each part has the bound of the first one, and chunks of the batch's last version wait for the last part."""
        attempt = merging()
        whole, before = newest(attempt), attempt.stored.positions
        attempt.cut(whole, 0, 2)
        finish_reads(attempt)
        attempt.commit()
        attempt.start()
        seen = []
        for _ in range(2):
            finish_reads(attempt)
            finish_part(attempt)
            seen.append((attempt.stored.consumed, attempt.stored.positions == before))
        last = newest(attempt)
        finish_part(attempt)

        assert (whole.part_bytes, last.part_bytes) == (PART_BYTES, None)
        parts = [work for work in attempt.begun if isinstance(work, ApplyChanges)][1:4]
        assert [(work.part.low, work.part.high) for work in parts if work.part] == [
            (None, (0,)),
            ((0,), (2,)),
            ((2,), None),
        ]
        assert {(work.after, work.upto, work.bound) for work in parts} == {(0, 1, whole.bound)}
        assert seen == [(0, True), (0, True)]
        assert (attempt.stored.consumed, attempt.stored.parts) == (1, None)
        assert attempt.stored.positions != before
        finish_reads(attempt)
        attempt.run()
        assert sorted(attempt.target) == [0, 2, 4, 6, 8, *range(20, 25)]

    def test_the_first_part_is_announced_at_once(self) -> None:
        """R-PART-2: a round waits for no barrier between the cut and the first part."""
        attempt = merging()
        attempt.cut(newest(attempt), 0, 2)

        assert attempt.strategy.status.wants_announcement
        assert attempt.commit().announces

    def test_an_attempt_merges_the_next_part_before_it_reads(self) -> None:
        """R-PART-3: the part whose transaction the target has is not merged again. Files of the consumed version may be gone."""
        attempt = merging()
        attempt.cut(newest(attempt), 0, 2)
        attempt.commit()
        attempt.start()
        part, stored = newest(attempt), attempt.stored
        attempt.finish(part)

        again = ByHand(
            attempt.versions, cuts=ids(*range(9)), chunk_rows=1, part_bytes=PART_BYTES, stored=stored,
            last_txn=part.txn_version, target=attempt.target.values(),
        )  # fmt: skip

        assert again.start() == []
        again.poll()
        assert again.commit().announces
        again.start()
        resumed = newest(again)
        assert resumed.part is not None
        assert (resumed.part.low, resumed.bound) == ((0,), part.bound)
        assert again.stored.positions == VnodePositions.of([UpTo((3,))])

    def test_the_position_is_shown_with_the_position_of_the_copy(self) -> None:
        """`status` shows both, and a receipt waits for the last part (R-PART-6)."""
        attempt = merging()
        attempt.cut(newest(attempt), 0, 2)
        attempt.commit()
        attempt.start()
        finish_part(attempt)

        parts = "1 of 3 parts of the changes up to version 1, up to id = 0"
        assert attempt.strategy.view(attempt.now).position == f"rows up to c0 = 3; {parts}"
        assert attempt.strategy.status.between_parts == parts
