"""A copy in the order of a key: chunks whose rows are not where the source's log says."""

from __future__ import annotations

import pytest
from support.arrangement.by_hand import ByHand
from support.reference.arrangement import Values

from backfill_core.protocol.events import WorkFinished
from backfill_core.protocol.work import KeyRangeStaged, ReadKeyRange


class TestAChunk:
    """Moves the position on, or ends the job."""

    @pytest.mark.parametrize("last", [(2,), (1,), (0,)])
    def test_that_does_not_move_on_ends_the_job(self, last: Values) -> None:
        """Statistics that exclude rows had the same rows read for ever (fault B2)."""
        rows: list[Values] = [(number,) for number in range(10)]
        one = ByHand([rows], cuts=rows[:-1], chunk_rows=2, in_flight_max=1)
        one.round()
        (chunk,) = one.start()
        assert isinstance(chunk, ReadKeyRange)
        assert chunk.low == (1,)

        one.strategy.on(WorkFinished(KeyRangeStaged(chunk.work_id, (), 2, last)), one.now)
        failure = one.strategy.status.failure

        assert (failure is None) == (last > chunk.low)
        assert failure is None or (failure.reason, "c0 = 1" in failure.message) == ("SourceDamaged", True)
