"""Tests of the number of requests under way at a store."""

from hypothesis import given
from hypothesis import strategies as st

from backfill_core.file_copies.request_width import NARROWEST, WIDEST, RequestWidth

OBSERVATIONS = st.lists(st.one_of(st.just(None), st.floats(0.001, 2)), max_size=600)
"""Times of answers; `None` for a refused request."""


def after(observations, state=None):
    """Return the state after some observations."""
    state = state or RequestWidth()
    for seconds in observations:
        state = state.refuse() if seconds is None else state.answer(seconds)
    return state


class TestTheWidth:
    """It grows until the store shows a limit, and falls at once if it is refused."""

    @given(OBSERVATIONS)
    def test_it_stays_within_its_bounds(self, observations):
        """Whatever the store answers."""
        assert NARROWEST <= after(observations).width <= WIDEST

    @given(OBSERVATIONS)
    def test_a_refusal_never_widens(self, observations):
        """Also after any history."""
        state = after(observations)

        assert state.refuse().width <= state.width

    def test_a_store_that_answers_as_fast_as_ever_gets_all_requests(self):
        """From 16 to 256 in four rounds."""
        assert after([0.01] * (16 + 32 + 64 + 128)).width == WIDEST

    def test_many_refusals_of_one_round_halve_it_once(self):
        """All requests of a round meet the same overload."""
        wide = after([0.01] * 240)

        assert after([None] * 50, wide).width == WIDEST // 2
        assert after([*[None] * 50, *[0.01] * 128, None], wide).width == WIDEST // 4

    def test_it_grows_in_small_steps_after_a_refusal(self):
        """Not in the round of the refusal; afterwards by 8, so that it stays near the limit."""
        wide = after([0.01] * 240)
        cut = after([None, *[0.01] * 128], wide)

        assert cut.width == WIDEST // 2
        assert after([0.01] * 128, cut).width == WIDEST // 2 + 8

    def test_slower_answers_end_the_growth_and_much_slower_ones_lower_it(self):
        """More requests at once only wait in the store."""
        fast = after([0.01] * 16)

        assert after([0.02] * 32, fast).width == 32
        assert after([0.03] * 32, fast).width == 28

    @given(st.integers(0, 1000))
    def test_batches_share_it(self, batches):
        """Together they send no more than the width, unless there are more batches than requests; none of them waits for ever."""
        share = RequestWidth().share(batches)

        assert share >= 1
        assert share * batches <= max(NARROWEST, batches)
