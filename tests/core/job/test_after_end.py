"""Endings: edits after the end are refused with the reason (faults M2, U2), and a stop says what the target holds."""

from dataclasses import replace
from typing import Any

import pytest
from support.tables.jobs import job

from backfill_core.errors import InvalidSpecError
from backfill_core.job.after_end import describe_early_stop, refuse_after_end
from backfill_core.job.state import JobState
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.receipt import Receipt

WHOLE = Receipt(3, 9, 1, 100, 256, "", (), 1.0)


class TestAnEditAfterTheEnd:
    """A user who sets a field and sees no error believes that it is in force."""

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
    def test_that_cannot_take_effect_is_refused(
        self, spec: dict[str, Any], receipt: Receipt | None, field: str
    ) -> None:
        """With the field, its value and what to do instead."""
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
    def test_that_holds_already_passes(self, spec: dict[str, Any], receipt: Receipt | None) -> None:
        """A scheduler starts a finished job every night; limits and pauses are about work that is done."""
        assert refuse_after_end(job("/a", "/b", **spec).spec, receipt) is None


class TestAStopBeforeTheFirstCommit:
    """Who presses Ctrl-C while a job resumes must not believe that its rows are gone (fault U12)."""

    def test_names_what_earlier_attempts_left(self) -> None:
        """`stopped before anything was written` was said of a target with 785,125 rows."""
        state = JobState("a/b", "h", 2, 9, "Snapshot", rows_done=785_125, changes_done=12)

        words = describe_early_stop(state)

        assert "the target holds 785,125 rows and 12 changes of attempt 2" in words
        assert words.endswith("run it again to go on")

    def test_of_a_target_that_was_not_read_says_nothing_of_it(self) -> None:
        """Spark may not have started."""
        assert describe_early_stop(None) == "stopped before this attempt wrote anything; run it again"
