"""What arrangement stores, and what a new attempt goes on from."""

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
    open_request,
    position_words,
    summarize,
)


def ids(*keys: int) -> list[Values]:
    return [(one,) for one in keys]


TEN = ids(*range(10))
CUTS = ids(*range(9))


def begun(**settings: Any) -> ByHand:
    """Ten rows, a cut behind each, chunks of one row, two side by side."""
    return ByHand([TEN], cuts=CUTS, **{"chunk_rows": 1, **settings})


class TestThePositionInWords:
    """`backfill status` says the key that is reached, with a driver and without one."""

    def test_is_of_the_key_that_is_reached(self) -> None:
        """Of the newest commit, not of what is read since."""
        one = begun()
        assert one.strategy.view(one.now).position == ""
        one.round()

        assert summarize(one.stored).position == one.strategy.view(one.now).position == "rows up to c0 = 1"
        one.run()
        assert summarize(one.stored).position == one.strategy.view(one.now).position == ""

    def test_names_ranges_of_vnodes_that_are_not_equally_far(self) -> None:
        """A few of them: a line on a terminal holds no more."""
        space = KeySpace(KeyOrder((KeyColumn("at", "date", descending=True), KeyColumn("id", "long"))), ("id",), 256)
        days = [UpTo((day, 7)) for day in range(6)]
        two = VnodePositions.of([days[0]] * 128 + [Completed()] * 128)
        six = VnodePositions.of(
            [one for one in (*days[:2], NotStarted(), *days[3:]) for _ in range(32)] + [Completed()] * 64
        )

        assert position_words(space, two) == (
            "vnodes 0 to 127: rows down to at = 1970-01-01, id = 7; vnodes 128 to 255: all rows"
        )
        assert position_words(space, six).endswith("vnodes 64 to 95: no row; and 4 more ranges of vnodes")

    def test_of_a_long_key_is_cut(self) -> None:
        """A status has a place for words, not for 8 KiB of a key."""
        space = KeySpace(KeyOrder((KeyColumn("name", "string"),)), ("name",), 1)

        assert len(position_words(space, VnodePositions.of([UpTo(("x" * 5000,))]))) == POSITION_WORDS_MAX


class TestTheStoredForm:
    """What a new attempt goes on from."""

    def test_is_read_as_it_was(self) -> None:
        """Through JSON text."""
        one = begun()
        one.round()
        one.change(*TEN[1:])
        one.commit()

        assert decode(json.loads(json.dumps(one.strategy.stored.encode()))) == one.strategy.stored
        assert summarize(one.stored).phase == "Reading"
        assert open_request(one.stored) == ReadNewest("table")
        assert open_request(None) == ReadNewest()

    @pytest.mark.parametrize(
        ("field", "value"),
        [("phase", "Rounds"), ("positions", [[1, "x"]]), ("order", []), ("distribution", [1]), ("consumed", "0"),
         ("merging", 5), ("rowsRead", None)],
    )  # fmt: skip
    def test_that_does_not_fit_is_refused(self, field: str, value: Any) -> None:
        """By the name of the field, with a hint."""
        state = begun().strategy.stored.encode() | {field: value}

        with pytest.raises(StateMismatchError, match=rf"arrangement\.{field}"):
            decode(state)

    def test_of_another_order_is_refused(self) -> None:
        """A position in one order says nothing in another one."""
        state = begun().stored

        with pytest.raises(StateMismatchError, match=r"\(c0 long ASC\).*\(c0 long DESC\)"):
            ByHand([TEN], key=Key((0,), (True,)), stored=state)

    @pytest.mark.parametrize("landed", [True, False])
    def test_knows_by_its_number_whether_a_merge_happened(self, landed: bool) -> None:
        """R-ARR-38: it is done again, or it is not."""
        one = begun()
        one.round()
        one.change(*TEN[1:], (10,))
        one.commit()
        (merge, *_) = one.start()
        assert isinstance(merge, ApplyChanges)
        state, txn = one.stored, merge.txn_version if landed else 7
        if landed:
            one.finish(merge)

        after = ByHand(one.versions, stored=state, last_txn=txn, target=one.target.values(), cuts=CUTS, chunk_rows=1)

        assert after.stored.consumed == (1 if landed else 0)
        after.run()
        assert sorted(after.target) == list(range(1, 11))

    def test_of_an_old_version_begins_with_its_changes(self) -> None:
        """The files of that version may be gone; changes need none of them."""
        one = begun()
        one.round()
        after = ByHand([TEN, TEN[1:]], stored=one.stored, target=one.target.values(), cuts=CUTS)
        after.poll()

        assert after.start() == []
        assert after.commit().announces

    def test_is_small_whatever_the_vnodes(self) -> None:
        """64 KiB, with keys as long as a position may be."""
        keys = [("x" * 8000 + str(at),) for at in range(3)]
        one = ByHand(
            [keys], types=("string",), cuts=keys[:2], vnodes=32768, vnode_of=lambda row: int(row[0][-1]), chunk_rows=1
        )
        one.round()

        assert len(json.dumps(one.strategy.stored.encode())) < SIZE_MAX_BYTES // 4

    @pytest.mark.parametrize("vnodes", [256, 32_768])
    def test_stays_small_at_every_commit(self, vnodes: int) -> None:
        """All vnodes move together, also while a MERGE is announced: the positions are one run, however many rounds there are."""
        one = ByHand([TEN], cuts=CUTS, vnodes=vnodes, vnode_of=lambda row: row[0] * 7919 % vnodes, chunk_rows=1)
        largest = 0
        for at in range(len(TEN)):
            one.change(*one.versions[-1], (100 + at,))
            one.round()
            largest = max(largest, len(json.dumps(one.strategy.stored.encode())))
        one.run()

        assert max(largest, len(json.dumps(one.strategy.stored.encode()))) < 512

    def test_has_no_room_for_larger_keys(self) -> None:
        """The job ends with the name of the setting, before a state is too large to be stored."""
        keys = [("x" * 9000 + str(at),) for at in range(3)]
        one = ByHand([keys], types=("string",), rows_per_cut=3, chunk_rows=1)
        one.finish(one.start()[0])

        assert isinstance(one.strategy.status.failure, KeyInvalidError)

    def test_of_mixed_vnodes_stays_mixed_only_as_far_as_it_was(self) -> None:
        """R-ARR-39: those behind catch up to those ahead, then all go on together."""
        one = begun(vnodes=2, vnode_of=lambda row: row[0] % 2)
        one.round()
        state = one.stored
        mixed = VnodePositions.of([UpTo((6,)), NotStarted()])
        after = begun(
            vnodes=2, vnode_of=lambda row: row[0] % 2, target=ids(0, 2, 4, 6), chunk_rows=4,
            stored=decode(state.encode() | {"positions": mixed.to_json(one.space.order)}),
        )  # fmt: skip
        after.run()

        assert [(work.vnodes, work.high) for work in after.begun if isinstance(work, ReadKeyRange)][:2] == [
            (((1, 2),), (6,)),
            (((0, 2),), None),
        ]
        assert sorted(after.target) == list(range(10))
