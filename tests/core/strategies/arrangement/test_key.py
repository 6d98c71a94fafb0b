"""Two rows with one key: the job finds them in the range that has both, or in the target, before a MERGE hides them."""

from __future__ import annotations

import pytest
from support.arrangement.by_hand import begun, ids

from backfill_core.protocol.work import ProveKey, ReadKeyRange

TEN = ids(*range(10))


class TestTheKey:
    """No commit adds two rows with one key to the target unnoticed (fault D6)."""

    @pytest.mark.parametrize(
        ("proves", "proven", "checked"), [(True, True, False), (True, False, True), (False, False, False)]
    )
    def test_the_key_of_each_range_is_checked_unless_its_version_was_proven(
        self, proves: bool, proven: bool, checked: bool
    ) -> None:
        """ADR 0011: two rows with one key must be found before a MERGE hides them."""
        (chunk, *_) = begun(proves_key=proves, key_proven=proven).start()

        assert isinstance(chunk, ReadKeyRange)
        assert chunk.proves_key == checked

    def test_the_key_of_a_range_at_a_newer_version_is_checked(self) -> None:
        """The proof at the start covers the first version; a later version may have a second row with a key."""
        attempt = begun(proves_key=True, key_proven=True)
        attempt.round()
        attempt.change(*TEN[1:], (10,))
        attempt.commit()

        _, *ahead = attempt.start()

        assert [(chunk.version, chunk.proves_key) for chunk in ahead if isinstance(chunk, ReadKeyRange)] == [(1, True)]

    def test_the_key_is_proven_in_the_target_where_ranges_split_keys(self) -> None:
        """Rows of one key are in two ranges that are each unique: only the target shows the duplicate, before any
        change hides it."""
        attempt = begun(proves_key=True, key_proven=True, splits_keys=True, in_flight_max=10)
        attempt.round()
        attempt.change(*TEN[1:], (10,))

        (proof,) = attempt.start()
        assert isinstance(proof, ProveKey)
        assert not attempt.commit().announces
        assert not attempt.strategy.status.wants_announcement
        assert attempt.strategy.status.step == "KeyProof"
        assert not attempt.stored.key_proven

        attempt.finish(proof)
        assert attempt.commit().announces
        assert attempt.stored.key_proven
        attempt.run()
        assert sorted(attempt.target) == [*range(1, 11)]

    def test_the_key_is_proven_again_where_the_proof_was_lost(self) -> None:
        """A job without the proof never finishes."""
        attempt = begun(proves_key=True, splits_keys=True, in_flight_max=10)
        attempt.round()
        (proof,) = attempt.start()
        attempt.lose(proof)

        (again,) = attempt.start()

        assert isinstance(again, ProveKey)
        assert not attempt.strategy.status.caught_up

    def test_a_key_that_is_stored_as_proven_is_not_proven_again(self) -> None:
        """A new attempt after MERGEs could not see hidden duplicates."""
        first = begun(proves_key=True, splits_keys=True, in_flight_max=10)
        first.run()

        again = begun(proves_key=True, splits_keys=True, stored=first.stored, target=TEN)
        again.run()

        assert first.stored.key_proven
        assert not any(isinstance(work, ProveKey) for work in again.begun)

    def test_the_key_is_not_proven_in_the_target_where_each_range_has_all_rows_of_a_key(self) -> None:
        """Each range proved its own key."""
        attempt = begun(proves_key=True)
        attempt.run()

        assert not any(isinstance(work, ProveKey) for work in attempt.begun)
