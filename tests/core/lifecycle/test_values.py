"""Small parts: timestamps, names, delays, termination messages, and the write policy of a status."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.lifecycle_space import PLAN
from support.operators.observations import T0

from backfill_api.status.ending import ENDING_BYTES_MAX, Ending
from backfill_api.status.plan import PlannedFiles, PlannedTarget, PlanWarning
from backfill_api.status.progress import ProgressSummary
from backfill_api.status.status import BackfillStatus
from backfill_api.timestamps import ms_of, rfc3339
from backfill_core.lifecycle.inputs.backoff import backoff_ms
from backfill_core.lifecycle.inputs.policy import Policy
from backfill_core.lifecycle.naming import base_name, driver_name
from backfill_core.lifecycle.status.write_policy import decide_write

DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
LAST_MS = 253_402_300_799_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TestTimestamps:
    """The standard library has better functions, but its module also has a clock."""

    @given(st.integers(0, LAST_MS))
    def test_timestamps_are_written_like_those_of_the_standard_library(self, ms: int) -> None:
        """Timestamps are UTC with whole seconds."""
        assert rfc3339(ms) == datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")
        assert ms_of(rfc3339(ms)) == ms // 1000 * 1000

    @given(st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(9998, 1, 1)), st.integers(-840, 840))
    def test_timestamps_are_read_with_fraction_and_offset(self, time: datetime, minutes: int) -> None:
        """Other tools write fractions and offsets."""
        sign, rest = "-" if minutes < 0 else "+", abs(minutes)
        text = f"{time.isoformat(timespec='microseconds')}{sign}{rest // 60:02}:{rest % 60:02}"

        assert ms_of(text) == (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)

    @pytest.mark.parametrize(
        "text", [None, "", "soon", "2027-13-01T00:00:00Z", "2027-01-15", "２０２７-01-15T00:00:00Z"]
    )
    def test_an_invalid_timestamp_is_none(self, text: str | None) -> None:
        """A user may have edited the status; a crash would stop all decisions."""
        assert ms_of(text) is None


class TestNames:
    """Pod, Service, ConfigMap and Secret share one name."""

    @given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", fullmatch=True), st.integers(1, 10**8))
    def test_names_are_legal_for_the_strictest_kind(self, name: str, attempt: int) -> None:
        """The name of a Service begins with a letter and has at most 63 characters."""
        assert DNS_1035.fullmatch(driver_name(name, attempt))
        assert len(driver_name(name, attempt)) <= 63

    def test_names_of_long_namesakes_differ(self) -> None:
        """A hash replaces the removed part."""
        assert base_name("a" * 60) != base_name("a" * 61)
        assert base_name("orders") == "orders"
        assert base_name("a.b") != base_name("a-b")

    @pytest.mark.parametrize("name", ["a" * 60, "orders.eu", "9lives", "Orders"])
    def test_names_of_one_backfill_cannot_be_those_of_another(self, name: str) -> None:
        """Everyone can compute the hash: a Backfill of that name once blocked the objects of the other one (fault S10)."""
        taken = base_name(name)

        assert base_name(taken) != taken
        assert base_name(base_name(taken)) != base_name(taken)

    def test_names_with_a_date_stay_unchanged(self) -> None:
        """Users choose such names, and they end in digits like a hash."""
        assert base_name("orders-20261126") == "orders-20261126"

    def test_names_with_a_given_hash_are_not_found_by_trying(self) -> None:
        """A graphics card tries 2^32 hashes per second, and 2^80 in millions of years."""
        digits = base_name("a" * 60).rsplit("-", 1)[1]

        assert len(digits) * 4 >= 80


class TestBackoff:
    """The backoff is doubled, bounded, and deterministic."""

    @given(st.integers(1, 700), st.integers(0, 10_000), st.integers(1, 1000), st.text(max_size=9))
    def test_the_backoff_stays_within_its_bounds(self, initial: int, more: int, failures: int, uid: str) -> None:
        """The delay is at least four fifths of the nominal delay and never more than the maximum."""
        rules = Policy(backoff_initial_s=initial, backoff_max_s=initial + more)
        full = min(initial * 2 ** min(failures - 1, 40), initial + more) * 1000

        assert full * 0.8 - 20 <= backoff_ms(rules, uid, 3, failures) <= full

    def test_the_backoff_spreads_jobs_that_failed_together(self) -> None:
        """A thousand jobs on one node must not restart at once."""
        waits = {backoff_ms(Policy(backoff_initial_s=600), f"uid-{number}", 1, 1) for number in range(1000)}

        assert len(waits) >= 20


class TestTerminationMessages:
    """A kubelet keeps 4,096 bytes of a termination message."""

    @given(st.text(max_size=4096), st.text(max_size=4096), st.integers(0, 32))
    def test_termination_messages_always_fit_and_can_be_read_again(
        self, message: str, hint: str, warnings: int
    ) -> None:
        """The message is truncated, never the reason."""
        warning = PlanWarning(reason="Big", message="x" * 300)
        ending = Ending(outcome="Failed", reason="Big", message=message, hint=hint, plan=PLAN.model_copy(update={"warnings": (warning,) * warnings}))  # fmt: skip

        text = ending.text()
        read = Ending.read(text)

        assert len(text.encode()) <= ENDING_BYTES_MAX
        assert read is not None
        assert (read.outcome, read.reason, read.plan is not None) == ("Failed", "Big", True)

    def test_a_plan_with_many_columns_and_reasons_fits(self) -> None:
        """The numbers of the plan are kept as long as they fit; the target is dropped first."""
        ways = tuple(PlannedFiles(way="Decoded", files=number, reason="x" * 500) for number in range(12))
        plan = PLAN.model_copy(update={"ways": ways, "target": PlannedTarget(columns="c" * 2000)})

        read = Ending.read(Ending(outcome="Planned", plan=plan).text())

        assert read is not None
        assert read.plan is not None
        assert (read.plan.rows, read.plan.target, [planned.files for planned in read.plan.ways]) == (
            PLAN.rows,
            None,
            [*range(12)],
        )

    @pytest.mark.parametrize("text", ["", "Traceback (most recent call last):", "{}", '{"outcome":"Maybe"}', "[1]"])
    def test_the_output_of_another_program_is_no_termination_message(self, text: str) -> None:
        """The policy FallbackToLogsOnError makes the end of the log the message."""
        assert Ending.read(text) is None


class TestWritePolicy:
    """An object gets at most one progress write in 10 s or per percent; other changes are written at once."""

    OLD = BackfillStatus(observed_generation=1, phase="Running", progress=ProgressSummary(percent=4, rows_done=40))

    @pytest.mark.parametrize(
        ("change", "seconds", "expected"),
        [
            ({}, 0, "Never"),
            ({"phase": "Paused"}, 0, "Now"),
            ({"progress": ProgressSummary(percent=4, rows_done=41)}, 0, "Later"),
            ({"progress": ProgressSummary(percent=4, rows_done=41)}, 10, "Progress"),
            ({"progress": ProgressSummary(percent=5, rows_done=50)}, 0, "Progress"),
            ({"progress": ProgressSummary(percent=4, rows_done=40, epoch=9)}, 10, "Never"),
            ({"progress": ProgressSummary(percent=4, rows_done=41, epoch=9)}, 10, "Progress"),
            ({"progress": ProgressSummary(percent=5, rows_done=50), "phase": "Paused"}, 0, "Now"),
        ],
    )
    def test_changes_are_written_at_once_and_progress_later(
        self, change: dict[str, object], seconds: int, expected: str
    ) -> None:
        """A condition is written at once; progress updates must not load the API server."""
        new = self.OLD.model_copy(update=change)

        decision = decide_write(self.OLD, new, progress_written_ms=T0, now_ms=T0 + seconds * 1000)

        assert decision.write == expected
        assert decision.after_ms == (10_000 if expected == "Later" else 0)
