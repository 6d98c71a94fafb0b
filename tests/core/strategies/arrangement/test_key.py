"""Two rows with one key: found in the range that has both, or in the target, before a MERGE hides them."""

from __future__ import annotations

import pytest
from support.arrangement.by_hand import begun, ids

from backfill_core.protocol.work import ProveKey, ReadKeyRange

TEN = ids(*range(10))


class TestTheKey:
    """No commit puts two rows with one key into the target unseen (fault D6)."""

    @pytest.mark.parametrize(
        ("proves", "proven", "checked"), [(True, True, False), (True, False, True), (False, False, False)]
    )
    def test_of_each_range_is_checked_unless_its_version_was_proven(
        self, proves: bool, proven: bool, checked: bool
    ) -> None:
        """ADR 0011: two rows with one key must be found before a MERGE hides them."""
        (chunk, *_) = begun(proves_key=proves, key_proven=proven).start()

        assert isinstance(chunk, ReadKeyRange)
        assert chunk.proves_key == checked

    def test_of_a_range_at_a_newer_version_is_checked(self) -> None:
        """The proof at the start is about the version of the start; a later version may have a second row with a key."""
        one = begun(proves_key=True, key_proven=True)
        one.round()
        one.change(*TEN[1:], (10,))
        one.commit()

        _, *ahead = one.start()

        assert [(chunk.version, chunk.proves_key) for chunk in ahead if isinstance(chunk, ReadKeyRange)] == [(1, True)]

    def test_is_proven_in_the_target_where_ranges_split_keys(self) -> None:
        """Rows of one key are in two ranges, and both are right by themselves: only the target tells, before any change hides it."""
        one = begun(proves_key=True, key_proven=True, splits_keys=True, in_flight_max=10)
        one.round()
        one.change(*TEN[1:], (10,))

        (proof,) = one.start()
        assert isinstance(proof, ProveKey)
        assert not one.commit().announces
        assert not one.strategy.status.wants_announcement
        assert one.strategy.status.step == "KeyProof"
        assert not one.stored.key_proven

        one.finish(proof)
        assert one.commit().announces
        assert one.stored.key_proven
        one.run()
        assert sorted(one.target) == [*range(1, 11)]

    def test_is_proven_again_where_the_proof_was_lost(self) -> None:
        """A job without it is never finished."""
        one = begun(proves_key=True, splits_keys=True, in_flight_max=10)
        one.round()
        (proof,) = one.start()
        one.lose(proof)

        (again,) = one.start()

        assert isinstance(again, ProveKey)
        assert not one.strategy.status.caught_up

    def test_that_is_stored_as_proven_is_not_proven_again(self) -> None:
        """A new attempt after MERGEs could not see what they have hidden."""
        first = begun(proves_key=True, splits_keys=True, in_flight_max=10)
        first.run()

        again = begun(proves_key=True, splits_keys=True, stored=first.stored, target=TEN)
        again.run()

        assert first.stored.key_proven
        assert not any(isinstance(work, ProveKey) for work in again.begun)

    def test_is_not_proven_in_the_target_where_each_range_has_all_rows_of_a_key(self) -> None:
        """Each range proved its own."""
        one = begun(proves_key=True)
        one.run()

        assert not any(isinstance(work, ProveKey) for work in one.begun)
