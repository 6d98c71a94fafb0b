"""A Backfill that somebody watches is written more often, for a limited time and number."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.lifecycle_space import STATUSES
from support.operators.observations import T0, checked, observed, report, running

from backfill_api.names import WATCHED_ANNOTATION
from backfill_api.status.progress import ProgressSummary
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.inputs.timestamps import rfc3339
from backfill_core.lifecycle.status.write_policy import (
    LEASE_MS,
    WATCHED_EVERY_MS,
    WATCHED_MAX,
    Lease,
    decide_write,
    lease_of,
    with_lease,
)

UP = observed(status=STATUSES["running"], pods=(running(),), report=report(), finalizers=("backfill.dev/drain",))


def lease(seconds_ahead: int) -> Lease:
    """Return the lease of an annotation that ends this much later."""
    return lease_of({WATCHED_ANNOTATION: rfc3339(T0 + seconds_ahead * 1000)}, T0)


class TestTheLease:
    """Only the minute before the given time counts."""

    @pytest.mark.parametrize(
        ("seconds_ahead", "counts"), [(-1, False), (0, False), (1, True), (60, True), (61, False), (600, False)]
    )
    def test_a_time_counts_within_its_minute(self, seconds_ahead: int, counts: bool) -> None:
        """A viewer that disappears costs a minute, even if its clock is ahead."""
        assert lease(seconds_ahead) == Lease(T0 + seconds_ahead * 1000 if counts else 0)

    def test_an_object_without_the_annotation_has_no_lease(self) -> None:
        """This is the usual case."""
        assert lease_of({}, T0) == Lease()

    @pytest.mark.parametrize(
        "text", ["soon", "2999-01-01T00:00:00Z", "\x00" * 9000, "2027-13-45T99:00:00Z", "٢٠٢٧-01-15T08:00:30Z"]
    )
    def test_a_bad_text_is_ignored_with_an_event(self, text: str) -> None:
        """A typo does not stop a job, and its author learns why the picture is slow."""
        decision = checked(replace(UP, annotations={WATCHED_ANNOTATION: text}))
        [event] = [note for note in decision.events if note.reason == "AnnotationIgnored"]

        assert WATCHED_ANNOTATION in event.message
        assert len(event.message) < 500
        assert decision.status == checked(UP).status

    def test_a_lease_alone_causes_no_event(self) -> None:
        """It is renewed twice a minute."""
        assert checked(replace(UP, annotations={WATCHED_ANNOTATION: rfc3339(T0 + 30_000)})).events == checked(UP).events


class TestTheNumberOfLeases:
    """Fifty objects at most are written at this pace."""

    @given(
        st.lists(st.tuples(st.integers(0, 80), st.integers(-5, 60), st.integers(0, 20)), max_size=300),
    )
    def test_no_more_than_the_allowed_number_is_watched(self, requests: list[tuple[int, int, int]]) -> None:
        """A lease ends by time, and a held one may always be renewed."""
        leases: dict[str, int] = {}
        now_ms = T0
        for uid, ahead_s, pause_s in requests:
            now_ms += pause_s * 1000
            held = {of for of, end in leases.items() if end > now_ms}
            leases = with_lease(leases, str(uid), now_ms + ahead_s * 1000, now_ms)

            assert len(leases) <= WATCHED_MAX
            assert all(end > now_ms for end in leases.values())
            assert held - {str(uid)} <= set(leases)
            if ahead_s > 0 and (str(uid) in held or len(held) < WATCHED_MAX):
                assert leases[str(uid)] == now_ms + ahead_s * 1000

    def test_the_next_viewer_gets_the_place_of_one_that_left(self) -> None:
        """Fifty windows that were closed must not block the next one."""
        full = {str(number): T0 + LEASE_MS for number in range(WATCHED_MAX)}

        assert "new" not in with_lease(full, "new", T0 + LEASE_MS, T0)
        assert "new" in with_lease(full, "new", T0 + 2 * LEASE_MS, T0 + LEASE_MS)


class TestThePace:
    """Progress of a watched object is due every two seconds."""

    @pytest.mark.parametrize(
        ("every_ms", "after_ms", "write"), [(WATCHED_EVERY_MS, 2000, "Progress"), (10_000, 2000, "Later")]
    )
    def test_progress_is_due_at_the_interval(self, every_ms: int, after_ms: int, write: str) -> None:
        """An object that nobody watches stays at ten seconds."""
        old = BackfillStatus(phase="Running", progress=ProgressSummary(percent=4, rows_done=40))
        new = old.model_copy(update={"progress": ProgressSummary(percent=4, rows_done=41)})

        decision = decide_write(old, new, progress_written_ms=T0, now_ms=T0 + after_ms, every_ms=every_ms)

        assert decision.write == write
        assert decision.after_ms == (every_ms - after_ms if write == "Later" else 0)
