"""Position inside a batch that is merged in parts, against the set of keys that it represents."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.errors import StateMismatchError
from backfill_core.positions.change_parts import DESCRIPTION_MAX, ChangeParts, KeyPart
from backfill_core.positions.key_order import KeyColumn, KeyOrder
from backfill_core.protocol.stored_fields import StoredFields

ORDER = KeyOrder((KeyColumn("day", "date"), KeyColumn("id", "string")))
IDS = KeyOrder((KeyColumn("id", "long"),))
cuts = st.lists(st.integers(0, 50), min_size=1, unique=True).map(sorted)


def keys_of(part: KeyPart) -> set[int]:
    return {
        key
        for key in range(-1, 52)
        if (part.low is None or (key,) > part.low) and (part.high is None or (key,) <= part.high)
    }


class TestTheParts:
    """Each key is in one part, whatever the cuts are."""

    @given(cuts)
    def test_parts_contain_each_key_once(self, keys: list[int]) -> None:
        """R-PART-1: the cuts do not change, so the parts of all attempts are the same."""
        parts, held = ChangeParts(7, IDS, tuple((key,) for key in keys)), list[int]()

        while not parts.next.is_last:
            held += keys_of(parts.next)
            parts = parts.merged()
        held += keys_of(parts.next)

        assert sorted(held) == list(range(-1, 52))
        assert parts.done + 1 == parts.of == len(keys) + 1

    def test_a_resumed_part_is_detected_by_its_transaction(self) -> None:
        """R-PART-3: a MERGE that was only announced did not happen, whatever other transactions the target has."""
        parts = ChangeParts(7, IDS, ((3,), (5,)), done=1, txn=40)

        assert parts.resumed(40) == ChangeParts(7, IDS, ((3,), (5,)), done=2)
        assert parts.resumed(39) == parts.resumed(None) == ChangeParts(7, IDS, ((3,), (5,)), done=1)
        assert ChangeParts(7, IDS, ((3,),)).resumed(None).done == 0


class TestTheStoredForm:
    """A state is small, and an invalid one is refused before rows are skipped."""

    @pytest.mark.parametrize("txn", [None, 40])
    def test_a_stored_position_is_read_back(self, txn: int | None) -> None:
        """Keys of several columns keep their types."""
        parts = ChangeParts(7, ORDER, ((20_000, "é"), (20_000, "ü")), done=1, txn=txn)

        assert ChangeParts.from_json(json.loads(json.dumps(parts.encode()))) == parts

    @pytest.mark.parametrize(
        "changed",
        [{"done": 3}, {"done": -1}, {"cuts": [[1, 2, 3]]}, {"order": []}, {"upto": "7"}, {"txn": "x"}, {"cuts": None}],
        ids=str,
    )
    def test_an_invalid_position_is_refused(self, changed: dict[str, object]) -> None:
        """More parts done than there are would end the batch too early."""
        stored = ChangeParts(7, ORDER, ((20_000, "a"), (20_000, "b"))).encode() | changed

        with pytest.raises(StateMismatchError, match=r"snapshot\.parts"):
            StoredFields("snapshot", {"parts": stored}).parsed("parts", ChangeParts.from_json)

    def test_the_description_names_parts_and_key(self) -> None:
        """Before the first part the target has the rows of a version, so there is nothing to describe."""
        parts = ChangeParts(7, ORDER, ((20_000, "a" * 500), (20_001, "b")))

        assert parts.describe() == ""
        assert (
            parts.merged()
            .describe()
            .startswith("1 of 3 parts of the changes up to version 7, up to day = 2024-10-04, ")
        )
        assert len(parts.merged().describe()) == DESCRIPTION_MAX
