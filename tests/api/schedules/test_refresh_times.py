"""Times of `spec.refresh`: the calendar of a CronJob, and clear errors for what is none."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tables.jobs import job

from backfill_api.load import SpecError
from backfill_api.spec.schedules.cron import parse_schedule, zone_named
from backfill_api.spec.schedules.refresh import RefreshSpec

NEW_YORK = "America/New_York"
NIGHTLY = "0 2 * * *"


def following(schedule, now, zone="Etc/UTC", times=1):
    """Return the next times after a time, in the zone of the schedule with its offset."""
    shown, at_ms = [], round(datetime.fromisoformat(now).timestamp() * 1000)
    for _ in range(times):
        at_ms = RefreshSpec(schedule=schedule, time_zone=zone).next_after_ms(at_ms)
        shown.append(datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).isoformat(timespec="minutes"))
    return shown


class TestTheCalendar:
    """The expected times are those of the library that Kubernetes uses for CronJobs."""

    @pytest.mark.parametrize(
        ("schedule", "now", "expected"),
        [
            (NIGHTLY, "2026-11-27T01:59:59+00:00", "2026-11-27T02:00+00:00"),
            (NIGHTLY, "2026-11-27T02:00:00+00:00", "2026-11-28T02:00+00:00"),
            ("*/15 * * * *", "2026-11-27T02:01:00+00:00", "2026-11-27T02:15+00:00"),
            ("20-35/15 * * * *", "2026-11-27T02:21:00+00:00", "2026-11-27T02:35+00:00"),
            ("5/20 8,20 * * *", "2026-11-27T08:26:00+00:00", "2026-11-27T08:45+00:00"),
            ("0 0 * feb,NOV *", "2026-11-30T00:00:00+00:00", "2027-02-01T00:00+00:00"),
            ("0 0 29 2 *", "2096-03-01T00:00:00+00:00", "2104-02-29T00:00+00:00"),
            ("0 0 31 * *", "2026-11-01T00:00:00+00:00", "2026-12-31T00:00+00:00"),
            ("0 0 * * 7", "2026-11-27T00:00:00+00:00", "2026-11-29T00:00+00:00"),
            ("0 0 * * mon-fri", "2026-11-27T12:00:00+00:00", "2026-11-30T00:00+00:00"),
            ("@weekly", "2026-11-27T00:00:00+00:00", "2026-11-29T00:00+00:00"),
            ("@hourly", "2026-11-27T00:00:00+00:00", "2026-11-27T01:00+00:00"),
        ],
    )
    def test_gives_the_next_time(self, schedule, now, expected):
        """The time itself is not after itself."""
        assert following(schedule, now) == [expected]

    def test_a_day_matches_one_of_two_restricted_fields(self):
        """The 13th, and each Friday; with `*` in one of them, the other decides."""
        assert following("0 0 13 * fri", "2026-11-01T00:00:00+00:00", times=3) == [
            "2026-11-06T00:00+00:00", "2026-11-13T00:00+00:00", "2026-11-20T00:00+00:00",
        ]  # fmt: skip
        assert following("0 0 13 * *", "2026-11-14T00:00:00+00:00") == ["2026-12-13T00:00+00:00"]

    def test_a_time_that_the_clock_skips_does_not_exist(self):
        """On 8 March 2026 the clock in New York goes from 02:00 to 03:00."""
        assert following("30 2 * * *", "2026-03-08T00:00:00-05:00", NEW_YORK) == ["2026-03-09T02:30-04:00"]
        assert following("0 * * * *", "2026-03-08T01:00:00-05:00", NEW_YORK) == ["2026-03-08T03:00-04:00"]

    def test_a_time_that_the_clock_repeats_comes_twice(self):
        """On 1 November 2026 the clock in New York goes from 02:00 to 01:00."""
        expected = ["2026-11-01T01:00-04:00", "2026-11-01T01:00-05:00", "2026-11-02T01:00-05:00"]

        assert following("0 1 * * *", "2026-11-01T00:00:00-04:00", NEW_YORK, times=3) == expected

    @settings(max_examples=60, deadline=None)
    @given(
        st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "Antarctica/Troll", "Asia/Kathmandu", NEW_YORK]),
        st.tuples(st.sampled_from(["*", "*/7", "30", "59"]), st.sampled_from(["*", "0", "1-3", "*/5", "23"])),
        st.sampled_from(["* * *", "*/2 * *", "* * sun", "1,29 * sat"]),
        st.sampled_from(
            [datetime(2026, month, day, tzinfo=UTC) for month, day in ((3, 28), (4, 4), (10, 3), (10, 24))]
        ),
        st.integers(0, 3 * 1440),
    )
    def test_finds_the_first_minute_that_matches(self, name, times, days, start, minutes):
        """A search that visits each minute finds the same one, around changes of the clock too."""
        schedule, zone = parse_schedule(f"{' '.join(times)} {days}"), zone_named(name)
        now = start + timedelta(minutes=minutes)
        found = schedule.next_after_ms(round(now.timestamp() * 1000), zone)
        assert found is not None
        end = datetime.fromtimestamp(found / 1000, UTC)

        def matches(at):
            local = at.astimezone(zone)
            return (local.minute in schedule.minutes and local.hour in schedule.hours) and schedule.matches_day(local)

        passed = [now + timedelta(minutes=later) for later in range(1, min((end - now) // timedelta(minutes=1), 5000))]
        assert matches(end)
        assert not any(matches(at) for at in passed)

    def test_the_calendar_ends(self):
        """A clock of the year 9999 does not end the operator."""
        assert RefreshSpec(schedule=NIGHTLY).next_after_ms(253_402_300_000_000) is None


class TestAScheduleThatCannotBeRead:
    """Each error names field, value and remedy."""

    @pytest.mark.parametrize(
        ("schedule", "message"),
        [
            ("* * * *", "has 4 fields, and a schedule has 5"),
            ("@reboot", "has 1 fields"),
            ("TZ=Europe/Berlin 0 2 * * *", "has 6 fields"),
            ("60 * * * *", "minute '60' has '60', which is no number from 0 to 59"),
            ("0 2 * * someday", "day of week 'someday' has 'someday'"),
            ("5-1 * * * *", "minute '5-1' has the range 5-1, which ends before it begins"),
            ("*/0 * * * *", "minute '*/0' has '0', which is no number from 1 to 59"),
            ("1,,2 * * * *", "minute '1,,2' has ''"),
            ("0 0 30 2 *", "names no day that exists: day 30 of month 2"),
            ("٣ * * * *", "which is no number"),
        ],
    )
    def test_is_refused_by_its_field(self, schedule, message):
        """The remedy is an example."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", refresh={"schedule": schedule})

        [error] = refused.value.errors
        assert error.path == "spec.refresh.schedule"
        assert message in str(error)
        assert "0 2 * * *" in error.hint

    @pytest.mark.parametrize("zone", ["Europe/Nowhere", "Europe", "../etc/passwd", "/etc/localtime", "Local", "\x00"])
    def test_in_an_unknown_zone_is_refused(self, zone):
        """A name that leads out of the database is unknown, too."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", refresh={"schedule": NIGHTLY, "timeZone": zone})

        [error] = refused.value.errors
        assert error.path == "spec.refresh.timeZone"
        assert "Europe/Berlin" in error.hint


class TestAScheduleOfAJob:
    @pytest.mark.parametrize(
        ("fields", "path", "hint"),
        [
            ({"after": "Follow"}, "spec.after", "set after: Exit"),
            ({"ttlSecondsAfterFinished": 9}, "spec.ttlSecondsAfterFinished", "remove it"),
            ({"strategy": {"type": "RearrangedChain"}}, "spec.refresh.schedule", "use strategy.type: Arrangement"),
        ],
    )
    def test_that_cannot_run_again_is_refused(self, fields, path, hint):
        """It would look as if it did something."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", refresh={"schedule": NIGHTLY}, **fields)

        [error] = refused.value.errors
        assert (error.path, hint in error.hint) == (path, True)

    def test_belongs_to_no_identity(self):
        """A job that has run may get its schedule later."""
        assert job("/s", "/t").spec_hash == job("/s", "/t", refresh={"schedule": NIGHTLY}).spec_hash
