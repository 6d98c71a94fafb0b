"""Endings: a job rejects edits after its end with the reason (faults M2, U2), and a stop reports the content of the
target."""

from dataclasses import replace
from typing import Any

import pytest
from support.tables.jobs import job

from backfill_core.errors import InvalidSpecError
from backfill_core.job.after_end import describe_early_stop, refuse_after_end
from backfill_core.job.state import JobState
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.receipt import TableReceipt

WHOLE = TableReceipt(3, 9, 1, 100, 256, "", (), 1.0)


class TestAnEditAfterTheEnd:
    """A user who sets a field and sees no error assumes that it is in force."""

    @pytest.mark.parametrize(
        ("spec", "receipt", "field"),
        [
            ({"after": "Follow"}, WHOLE, "spec.after is Follow"),
            ({"after": "Follow", "verify": "Final"}, WHOLE, "spec.after is Follow"),
            ({"verify": "Final"}, None, "spec.verify is Final"),
            ({"verify": "Final"}, replace(WHOLE, complete=False), "spec.verify is Final"),
            ({"verify": "FinalByRows"}, replace(WHOLE, files_by_bytes=2), "spec.verify is FinalByRows"),
        ],
    )
    def test_an_edit_that_cannot_take_effect_is_refused(
        self, spec: dict[str, Any], receipt: TableReceipt | None, field: str
    ) -> None:
        """The error contains the field, its value and a remedy."""
        refused = refuse_after_end(job("/a", "/b", **spec).spec, receipt)

        assert isinstance(refused, InvalidSpecError)
        assert refused.message.startswith(field)
        assert refused.hint

    @pytest.mark.parametrize(
        ("spec", "receipt"),
        [
            ({}, None),
            ({"verify": "Final"}, WHOLE),
            ({"verify": "Final"}, replace(WHOLE, files_by_bytes=2)),
            ({"verify": "Final"}, replace(WHOLE, complete=False, cut_off=(OffsetRange("0", 85, 101),))),
            ({"verify": "FinalByRows"}, WHOLE),
            ({"throttle": {"rowsPerSecond": 5}, "desiredState": "Paused"}, None),
        ],
    )
    def test_an_edit_that_is_already_satisfied_passes(self, spec: dict[str, Any], receipt: TableReceipt | None) -> None:
        """A scheduler starts a finished job every night; limits and pauses only concern finished work."""
        assert refuse_after_end(job("/a", "/b", **spec).spec, receipt) is None


class TestAStopBeforeTheFirstCommit:
    """A user who presses Ctrl-C while a job resumes must not conclude that its rows are gone (fault U12)."""

    def test_an_early_stop_reports_the_rows_of_earlier_attempts(self) -> None:
        """The message once was `stopped before anything was written` for a target with 785,125 rows."""
        state = JobState("a/b", "h", 2, 9, "Snapshot", rows_done=785_125, changes_done=12)

        message = describe_early_stop(state)

        assert "the target holds 785,125 rows and 12 changes of attempt 2" in message
        assert message.endswith("run it again to go on")

    def test_an_early_stop_does_not_describe_an_unread_target(self) -> None:
        """Spark may not have started."""
        assert describe_early_stop(None) == "stopped before this attempt wrote anything; run it again"
