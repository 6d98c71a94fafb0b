"""A copy in the order of a key: chunks whose rows contradict the statistics in the source's log."""

from __future__ import annotations

import pytest
from support.arrangement.by_hand import ByHand
from support.reference.arrangement import Values

from backfill_core.protocol.events import WorkFinished
from backfill_core.protocol.work import KeyRangeStaged, ReadKeyRange


class TestAChunk:
    """A chunk advances the position or ends the job."""

    @pytest.mark.parametrize("last", [(2,), (1,), (0,)])
    def test_a_chunk_that_does_not_advance_ends_the_job(self, last: Values) -> None:
        """Statistics that exclude existing rows once caused endless reads of the same rows (fault B2)."""
        rows: list[Values] = [(number,) for number in range(10)]
        attempt = ByHand([rows], cuts=rows[:-1], chunk_rows=2, in_flight_max=1)
        attempt.round()
        (chunk,) = attempt.start()
        assert isinstance(chunk, ReadKeyRange)
        assert chunk.low == (1,)

        attempt.strategy.on(WorkFinished(KeyRangeStaged(chunk.work_id, (), 2, last)), attempt.now)
        failure = attempt.strategy.status.failure

        assert (failure is None) == (last > chunk.low)
        assert failure is None or (failure.reason, "c0 = 1" in failure.message) == ("SourceDamaged", True)
