"""Ages of pods are by the clock of the API servers, and one server with a wrong clock makes none of them old."""

from email.utils import formatdate

import pytest

from backfill_operator.kube.server_clock import KEPT, ServerClock

NOW_S = 1_800_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def clock():
    """A clock of a machine whose own time stands still."""
    return ServerClock(lambda: NOW_S * 1000)


def answer(clock, ahead_s=0, times=1):
    """Take responses of a server whose clock is ahead."""
    for _ in range(times):
        clock.on_response(formatdate(NOW_S + ahead_s, usegmt=True))


class TestTheOperatorsClock:
    def test_follows_the_server_if_all_responses_differ_from_it(self, clock):
        """The machine's own clock is the wrong one; the next response after it was corrected says so."""
        answer(clock, 3600)
        assert clock.ahead_ms == HOUR_MS

        answer(clock, 3602, times=KEPT - 1)
        assert clock.now_ms() == NOW_S * 1000 + HOUR_MS + 2000

        answer(clock)
        assert clock.ahead_ms == 0

    def test_is_not_moved_by_one_server_among_others(self, clock):
        """A driver looked an hour old, and was given up (fault S10)."""
        for _ in range(5):
            answer(clock)
            answer(clock, 3600, times=KEPT - 1)

            assert clock.ahead_ms == 0

    def test_is_between_servers_that_all_differ(self, clock):
        """One that is a day ahead does not decide alone."""
        for ahead_s in (60, 86_400, 61):
            answer(clock, ahead_s)

        assert clock.ahead_ms == 61_000

    @pytest.mark.parametrize("date", [None, "", "x", "Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 99999 00:00:00 GMT"])
    def test_ignores_what_is_no_time_of_a_server(self, clock, date):
        """And tolerates a second: the header has whole ones."""
        clock.on_response(date)
        answer(clock, 2)

        assert clock.ahead_ms == 0
