"""The stored state of arrangement, and how a new attempt resumes from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.arrangement.by_hand import ByHand
from support.reference.arrangement import Key, Values

from backfill_core.errors import KeyInvalidError, StateMismatchError
from backfill_core.job.state import SIZE_MAX_BYTES
from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_core.positions.vnode_positions import Completed, KeySpace, NotStarted, UpTo, VnodePositions
from backfill_core.protocol.strategy import ReadNewest
from backfill_core.protocol.work import ApplyChanges, ReadKeyRange
from backfill_core.strategies.arrangement.stored import (
    POSITION_WORDS_MAX,
    decode,
    describe_positions,
    open_request,
    summarize,
)


def ids(*keys: int) -> list[Values]:
    return [(key,) for key in keys]


TEN = ids(*range(10))
CUTS = ids(*range(9))


def begun(**settings: Any) -> ByHand:
    """Begin with ten rows, a cut behind each, chunks of one row, and two parallel reads."""
    return ByHand([TEN], cuts=CUTS, **{"chunk_rows": 1, **settings})


class TestThePositionInWords:
    """`backfill status` shows the reached key, with and without a driver."""

    def test_the_position_is_the_key_of_the_newest_commit(self) -> None:
        """Rows that were read since then do not count."""
        attempt = begun()
        assert attempt.strategy.view(attempt.now).position == ""
        attempt.round()

        assert summarize(attempt.stored).position == attempt.strategy.view(attempt.now).position == "rows up to c0 = 1"
        attempt.run()
        assert summarize(attempt.stored).position == attempt.strategy.view(attempt.now).position == ""

    def test_the_position_names_ranges_of_vnodes_that_differ(self) -> None:
        """It names only a few ranges, because a line on a terminal is short."""
        space = KeySpace(KeyOrder((KeyColumn("at", "date", descending=True), KeyColumn("id", "long"))), ("id",), 256)
        days = [UpTo((day, 7)) for day in range(6)]
        two = VnodePositions.of([days[0]] * 128 + [Completed()] * 128)
        six = VnodePositions.of(
            [reached for reached in (*days[:2], NotStarted(), *days[3:]) for _ in range(32)] + [Completed()] * 64
        )

        assert describe_positions(space, two) == (
            "vnodes 0 to 127: rows down to at = 1970-01-01, id = 7; vnodes 128 to 255: all rows"
        )
        assert describe_positions(space, six).endswith("vnodes 64 to 95: no row; and 4 more ranges of vnodes")

    def test_the_position_of_a_long_key_is_truncated(self) -> None:
        """A status has room for a short message, not for 8 KiB of a key."""
        space = KeySpace(KeyOrder((KeyColumn("name", "string"),)), ("name",), 1)

        assert len(describe_positions(space, VnodePositions.of([UpTo(("x" * 5000,))]))) == POSITION_WORDS_MAX


class TestTheStoredForm:
    """A new attempt resumes from the stored form."""

    def test_the_stored_form_survives_a_round_trip(self) -> None:
        """The round trip goes through JSON."""
        attempt = begun()
        attempt.round()
        attempt.change(*TEN[1:])
        attempt.commit()

        assert decode(json.loads(json.dumps(attempt.strategy.stored.encode()))) == attempt.strategy.stored
        assert summarize(attempt.stored).phase == "Reading"
        assert open_request(attempt.stored) == ReadNewest("table")
        assert open_request(None) == ReadNewest()

    @pytest.mark.parametrize(
        ("field", "value"),
        [("phase", "Rounds"), ("positions", [[1, "x"]]), ("order", []), ("distribution", [1]), ("consumed", "0"),
         ("merging", 5), ("rowsRead", None)],
    )  # fmt: skip
    def test_a_malformed_state_is_refused(self, field: str, value: Any) -> None:
        """The error has the name of the field and a hint."""
        state = begun().strategy.stored.encode() | {field: value}

        with pytest.raises(StateMismatchError, match=rf"arrangement\.{field}"):
            decode(state)

    def test_a_state_of_another_order_is_refused(self) -> None:
        """A position in one order has no meaning in another."""
        state = begun().stored

        with pytest.raises(StateMismatchError, match=r"\(c0 long ASC\).*\(c0 long DESC\)"):
            ByHand([TEN], key=Key((0,), (True,)), stored=state)

    @pytest.mark.parametrize("landed", [True, False])
    def test_a_resumed_job_detects_by_its_number_whether_a_merge_happened(self, landed: bool) -> None:
        """R-ARR-38: the attempt repeats the MERGE only if it did not happen."""
        attempt = begun()
        attempt.round()
        attempt.change(*TEN[1:], (10,))
        attempt.commit()
        (merge, *_) = attempt.start()
        assert isinstance(merge, ApplyChanges)
        state, txn = attempt.stored, merge.txn_version if landed else 7
        if landed:
            attempt.finish(merge)

        after = ByHand(
            attempt.versions, stored=state, last_txn=txn, target=attempt.target.values(), cuts=CUTS, chunk_rows=1
        )

        assert after.stored.consumed == (1 if landed else 0)
        after.run()
        assert sorted(after.target) == list(range(1, 11))

    def test_a_state_of_an_old_version_begins_with_its_changes(self) -> None:
        """The files of that version may be gone; changes need none of them."""
        attempt = begun()
        attempt.round()
        after = ByHand([TEN, TEN[1:]], stored=attempt.stored, target=attempt.target.values(), cuts=CUTS)
        after.poll()

        assert after.start() == []
        assert after.commit().announces

    def test_the_state_is_small_for_any_number_of_vnodes(self) -> None:
        """The maximum is 64 KiB, with keys of the maximum length of a position."""
        keys = [("x" * 8000 + str(at),) for at in range(3)]
        attempt = ByHand(
            [keys], types=("string",), cuts=keys[:2], vnodes=32768, vnode_of=lambda row: int(row[0][-1]), chunk_rows=1
        )
        attempt.round()

        assert len(json.dumps(attempt.strategy.stored.encode())) < SIZE_MAX_BYTES // 4

    @pytest.mark.parametrize("vnodes", [256, 32_768])
    def test_the_state_stays_small_at_every_commit(self, vnodes: int) -> None:
        """All vnodes move together, even while a MERGE is announced: the positions are one run after any number of
        rounds."""
        attempt = ByHand([TEN], cuts=CUTS, vnodes=vnodes, vnode_of=lambda row: row[0] * 7919 % vnodes, chunk_rows=1)
        largest = 0
        for at in range(len(TEN)):
            attempt.change(*attempt.versions[-1], (100 + at,))
            attempt.round()
            largest = max(largest, len(json.dumps(attempt.strategy.stored.encode())))
        attempt.run()

        assert max(largest, len(json.dumps(attempt.strategy.stored.encode()))) < 512

    def test_a_key_that_is_too_large_for_the_state_ends_the_job(self) -> None:
        """The job ends with the name of the setting, before a state is too large to be stored."""
        keys = [("x" * 9000 + str(at),) for at in range(3)]
        attempt = ByHand([keys], types=("string",), rows_per_cut=3, chunk_rows=1)
        attempt.finish(attempt.start()[0])

        assert isinstance(attempt.strategy.status.failure, KeyInvalidError)

    def test_mixed_vnodes_catch_up_and_then_move_together(self) -> None:
        """R-ARR-39: vnodes behind catch up to vnodes ahead, then all continue together."""
        attempt = begun(vnodes=2, vnode_of=lambda row: row[0] % 2)
        attempt.round()
        state = attempt.stored
        mixed = VnodePositions.of([UpTo((6,)), NotStarted()])
        after = begun(
            vnodes=2, vnode_of=lambda row: row[0] % 2, target=ids(0, 2, 4, 6), chunk_rows=4,
            stored=decode(state.encode() | {"positions": mixed.to_json(attempt.space.order)}),
        )  # fmt: skip
        after.run()

        assert [(work.vnodes, work.high) for work in after.begun if isinstance(work, ReadKeyRange)][:2] == [
            (((1, 2),), (6,)),
            (((0, 2),), None),
        ]
        assert sorted(after.target) == list(range(10))
