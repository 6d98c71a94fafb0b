"""Ages of pods use the clocks of the API servers, and one server with a wrong clock does not change them."""

from email.utils import formatdate

import pytest

from backfill_operator.kube.server_clock import KEPT, ServerClock

NOW_S = 1_800_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def clock():
    """Return a clock of a machine whose own time does not advance."""
    return ServerClock(lambda: NOW_S * 1000)


def answer(clock, ahead_s=0, times=1):
    """Process responses of a server whose clock is ahead."""
    for _ in range(times):
        clock.on_response(formatdate(NOW_S + ahead_s, usegmt=True))


class TestTheOperatorsClock:
    def test_clock_follows_the_server_if_all_responses_differ_from_it(self, clock):
        """The machine's own clock is wrong; the first response after its correction shows it."""
        answer(clock, 3600)
        assert clock.ahead_ms == HOUR_MS

        answer(clock, 3602, times=KEPT - 1)
        assert clock.now_ms() == NOW_S * 1000 + HOUR_MS + 2000

        answer(clock)
        assert clock.ahead_ms == 0

    def test_clock_is_not_changed_by_one_server_of_several(self, clock):
        """A driver seemed an hour old, and was given up (fault S10)."""
        for _ in range(5):
            answer(clock)
            answer(clock, 3600, times=KEPT - 1)

            assert clock.ahead_ms == 0

    def test_clock_uses_the_median_if_all_servers_differ(self, clock):
        """A server that is a day ahead does not determine the time."""
        for ahead_s in (60, 86_400, 61):
            answer(clock, ahead_s)

        assert clock.ahead_ms == 61_000

    @pytest.mark.parametrize("date", [None, "", "x", "Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 99999 00:00:00 GMT"])
    def test_clock_ignores_implausible_times(self, clock, date):
        """It also tolerates a second, because the header has whole seconds."""
        clock.on_response(date)
        answer(clock, 2)

        assert clock.ahead_ms == 0
