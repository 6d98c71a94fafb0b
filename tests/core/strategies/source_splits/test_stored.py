"""Stored state of partitions: readable for a few, packed for many, and rejected by field name if malformed."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from backfill_core.errors import StateMismatchError
from backfill_core.job.state import SIZE_MAX_BYTES, JobState
from backfill_core.pacing.record_sizes import OVERSIZED_MAX
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.strategy import Subscribe
from backfill_core.strategies.source_splits.packed import pack, unpack
from backfill_core.strategies.source_splits.split import Split
from backfill_core.strategies.source_splits.stored import (
    HISTORY,
    READABLE_MAX,
    SourceSplitsStored,
    decode,
    open_request,
)


def drawn(rng: Random, size: int) -> Split:
    """Return a partition in any state, with offsets up to a size."""
    start, done, missing = (rng.choice((0, rng.randrange(size))) for _ in range(3))
    new = rng.choice((0, rng.randrange(size)))
    end = start + done + missing
    return Split(start, start + done, end, end + new, rng.randint(0, done))


def stored(*splits: Split) -> SourceSplitsStored:
    return SourceSplitsStored("topic-1", HISTORY, {str(number): split for number, split in enumerate(splits)})


class TestTheForm:
    """R-SRC-44: a round trip changes nothing."""

    @pytest.mark.parametrize("count", [0, 1, READABLE_MAX, READABLE_MAX + 1, 300])
    def test_the_state_survives_a_round_trip(self, count: int) -> None:
        """The test covers both forms, with offsets of any size."""
        rng = Random(count)
        state = stored(*(drawn(rng, rng.choice((3, 1000, 1 << 62))) for _ in range(count)))
        assert decode(json.loads(json.dumps(state.encode()))) == state

    def test_partitions_may_have_any_name(self) -> None:
        """A plug-in may choose any names for its partitions."""
        splits = {name: Split(0, 5, 10, 12, 3) for name in ("", "orders", "ü" * 200, "12")}
        assert unpack(pack(splits)) == splits

    def test_the_state_has_the_json_of_the_rules(self) -> None:
        """A program that implements section 2.4 of the rules can read it."""
        state = stored(Split(3, 7, 10, 12, 4), Split(3, 10, 10, 10, 6), Split(3, 3, 10, 10), Split(0, 0, 0, 5))
        assert [*state.encode()["splits"].values()] == [
            {"state": {"Backfilling": "6"}, "num_consumed_rows": 4, "target_offset": "9"},
            {"state": {"SourceCachingUp": "9"}, "num_consumed_rows": 6, "target_offset": "9"},
            {"state": {"Backfilling": None}, "num_consumed_rows": 0, "target_offset": "9"},
            {"state": "Finished", "num_consumed_rows": 0, "target_offset": None},
        ]

    def test_a_thousand_partitions_fit_in_a_state(self) -> None:
        """The maximum is 64 KiB, with offsets of a billion per partition, a position for each, and the most unread ranges."""
        rng = Random(1)
        splits = [
            Split(base := rng.randrange(10**10), base + 10**9, base + 2 * 10**9, base + 3 * 10**9, 10**8)
            for _ in range(1000)
        ]
        unread = tuple(OffsetRange("999", 10**12 + at, 10**12 + at + 1) for at in range(OVERSIZED_MAX))
        state = replace(stored(*splits), unread=unread)
        position = {name: split.live for name, split in state.splits.items()}
        job = JobState("job/with-a-name", "hash" * 16, 3, 9, "SourceSplits", progress=state.encode(), consumed=position)
        assert len(job.encode().encode()) < SIZE_MAX_BYTES * 0.9

    def test_offsets_are_compared_as_numbers(self) -> None:
        """R-SRC-20: "10" is more than "9", although its string sorts before."""
        value = {"state": {"Backfilling": "9"}, "num_consumed_rows": 0, "target_offset": "10"}
        assert Split.from_json(value, start=0, live=11) == Split(0, 10, 11, 11)


class TestOpening:
    """A new attempt requests offsets from the source."""

    def test_the_first_missing_offsets_are_requested(self) -> None:
        """R-SRC-3, 34: the request has the first missing offset of history, or else of new records, and the identity of
        the topic."""
        state = stored(Split(3, 7, 10, 12, 4), Split(3, 10, 10, 15, 6))
        assert open_request(state) == Subscribe({"0": 7, "1": 15}, {"0": 3, "1": 3}, "topic-1")


class TestAStateThatDoesNotFit:
    """A malformed state is rejected by field name: half a position would lose rows or duplicate them."""

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("sourceId", None),
            ("phase", "Snapshot"),
            ("splits", {"0": {"state": "Done", "num_consumed_rows": 0, "target_offset": None}}),
            ("splits", {"0": {"state": {"Backfilling": "x"}, "num_consumed_rows": 0, "target_offset": "9"}}),
            ("splits", {"0": {"state": {"Backfilling": "12"}, "num_consumed_rows": 0, "target_offset": "9"}}),
            ("splits", {"0": {"state": {"SourceCachingUp": "3"}, "num_consumed_rows": 0, "target_offset": "9"}}),
            ("splits", {"0": {"state": {"Backfilling": "3"}, "num_consumed_rows": 99, "target_offset": "9"}}),
            ("splits", {"0": []}),
            ("splits", {}),
            ("starts", []),
            ("live", None),
            ("packed", "AAA="),
            ("packed", 7),
            ("packed", pack({"0": Split(3, 7, 10, 12, 4)})[:-4]),
        ],
    )
    def test_a_malformed_state_is_refused(self, field: str, value: Any) -> None:
        """The origin of the state does not matter."""
        state = stored(Split(0, 7, 10, 12, 4)).encode() | {field: value}
        with pytest.raises(StateMismatchError, match=rf"sourceSplits\.{field}"):
            decode(state)
