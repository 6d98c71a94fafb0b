"""The source is fenced at a time after which the target needs at most one more batch."""

import pytest

from backfill_core.errors import SwitchBlockedError
from backfill_core.switch_over.moment import MOMENT_WAIT_S, Reached, check_drains, is_drained, is_moment

FIRST = Reached(5)


class TestTheTimeOfTheFence:
    @pytest.mark.parametrize(
        ("head", "now", "fences"),
        [
            (5, Reached(5), True),
            (7, Reached(7), True),
            (7, Reached(6), False),
            (7, Reached(6, 7), True),
            (7, Reached(6, 8), True),
            (8, Reached(6, 7), False),
            (7, Reached(5, 7), False),
            (7, Reached(None), False),
            (7, Reached(None, 7), False),
        ],
        ids=[
            "nothing is pending", "the target caught up", "no batch runs", "the batch holds all", "the batch holds more",
            "a version is newer than the batch", "the first batch of a new Java", "history is incomplete", "history is merged",
        ],
    )  # fmt: skip
    def test_is_one_with_the_least_work_left(self, head, now, fences):
        """Writers are refused until that work is done."""
        assert is_moment(head, FIRST, now, waited_s=1.0) == fences

    @pytest.mark.parametrize(("now", "fences"), [(Reached(5), True), (Reached(None), False)])
    def test_comes_at_the_latest_after_the_longest_wait(self, now, fences):
        """A source may commit faster than the driver merges; a target without all of history never suffices."""
        assert is_moment(99, FIRST, now, waited_s=MOMENT_WAIT_S) == fences


class TestAPausedJob:
    """It applies no changes, so writers would be refused until the time-out."""

    def test_gets_a_fence_only_if_the_target_holds_everything(self):
        """A table without writers may be switched over during a pause."""
        check_drains(7, Reached(7, paused=True))
        check_drains(8, Reached(7))

        with pytest.raises(SwitchBlockedError, match="the job is paused"):
            check_drains(8, Reached(7, paused=True))


class TestTheDrain:
    @pytest.mark.parametrize(("now", "ends"), [(Reached(8), True), (Reached(7), True), (Reached(6, 7), False)])
    def test_ends_once_the_target_holds_the_version_before_the_fence(self, now, ends):
        """The entry of the fence has no rows; a batch that is only announced has not arrived."""
        assert is_drained(8, now) == ends
