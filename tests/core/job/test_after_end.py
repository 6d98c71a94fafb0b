"""Endings: a job rejects edits after its end with the reason (faults M2, U2), and a stop reports the content of the
target."""

import json
from dataclasses import replace
from typing import Any

import pytest
from support.tables.jobs import job

from backfill_core.errors import (
    BackfillError,
    ChangeFeedExpiredError,
    InvalidSpecError,
    OffsetsExpiredError,
    PermissionDeniedError,
    SnapshotExpiredError,
    SourceReplacedError,
    StateMismatchError,
)
from backfill_core.job.after_end import (
    AfterEnd,
    Continue,
    ReadHead,
    Refuse,
    Stay,
    decide_after_end,
    describe_early_stop,
    expired_after_end,
)
from backfill_core.job.state import JobState
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.events import Head
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.refresh import Refresh
from backfill_core.protocol.work import Position

WHOLE = TableReceipt(3, 9, 1, 100, 256, "", (), 1.0)
CHAIN = {"strategy": {"type": "RearrangedChain"}}


def ended(receipt: TableReceipt | None = None, consumed: Position = 3) -> JobState:
    """Return the state of a job that has ended."""
    return JobState("a/b", "h", 2, 9, "Snapshot", consumed=consumed, receipt=receipt, finished=True, changes_done=12)


def decided(spec: dict[str, Any], state: JobState, **given: Any) -> AfterEnd:
    """Return the decision about a run of a job that has ended."""
    return decide_after_end(job("/a", "/b", **spec).spec, state, **{"refresh": False, **given})


class TestAnEditAfterTheEnd:
    """A user who sets a field and sees no error assumes that it is in force."""

    @pytest.mark.parametrize(
        ("spec", "receipt", "field"),
        [
            (
                {"after": "Follow", **CHAIN},
                WHOLE,
                "spec.strategy.type is RearrangedChain, which does not allow spec.after",
            ),
            ({"verify": "Final"}, None, "spec.verify is Final"),
            ({"verify": "Final"}, replace(WHOLE, complete=False), "spec.verify is Final"),
            ({"verify": "FinalByRows"}, replace(WHOLE, files_by_bytes=2), "spec.verify is FinalByRows"),
        ],
    )
    def test_an_edit_that_cannot_take_effect_is_refused(
        self, spec: dict[str, Any], receipt: TableReceipt | None, field: str
    ) -> None:
        """The error contains the field, its value and a remedy."""
        refused = decided(spec, ended(receipt))

        assert isinstance(refused, Refuse)
        assert isinstance(refused.error, InvalidSpecError)
        assert refused.error.message.startswith(field)
        assert refused.error.hint

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
        decision = decided(spec, ended(receipt))

        assert isinstance(decision, Stay)
        assert decision.reason == "AlreadyComplete"

    @pytest.mark.parametrize("refresh", [False, True])
    def test_a_job_that_follows_continues_after_its_end(self, refresh: bool) -> None:
        """A job that has ended is the best start of a job that follows."""
        assert decided({"after": "Follow"}, ended(WHOLE), refresh=refresh) == Continue()


class TestARefresh:
    """A finished job runs again from its last position, and a quiet source costs one read of its newest position."""

    def test_a_refresh_needs_the_newest_position(self) -> None:
        """The decision reads nothing itself."""
        assert decided({}, ended(), refresh=True) == ReadHead()

    @pytest.mark.parametrize(("head", "consumed"), [(3, 3), ({"0": 5, "1": 0}, {"0": 5}), ({"0": 5}, {"0": 5, "1": 0})])
    def test_a_refresh_with_nothing_new_stays(self, head: Position, consumed: Position) -> None:
        """A new partition without a record has nothing new."""
        decision = decided({}, ended(WHOLE, consumed), refresh=True, head=Head(head, 0))

        assert isinstance(decision, Stay)
        assert decision.reason == "UpToDate"

    @pytest.mark.parametrize(
        ("head", "consumed"), [(4, 3), (2, 3), ({"0": 6}, {"0": 5}), ({"0": 5, "1": 1}, {"0": 5}), ({"0": 4}, {"0": 5})]
    )
    def test_a_refresh_continues_at_another_position(self, head: Position, consumed: Position) -> None:
        """A source that is behind was replaced; only the open source can name the reason."""
        assert decided({}, ended(WHOLE, consumed), refresh=True, head=Head(head, 0)) == Continue()

    def test_a_refresh_takes_a_missing_receipt(self) -> None:
        """The spec asks for it, and a refresh can take it."""
        assert decided({"verify": "Final"}, ended(None), refresh=True, head=Head(3, 0)) == Continue()

    def test_a_refresh_of_another_source_is_refused(self) -> None:
        """A table that was created again may have the same version with other rows."""
        refused = decided({}, ended(), refresh=True, head=Head(3, 0, "new"), source_id="old")

        assert isinstance(refused, Refuse)
        assert isinstance(refused.error, SourceReplacedError)

    def test_a_refresh_of_a_scope_is_refused(self) -> None:
        """It would apply changes of rows that others own."""
        scoped = {"target": {"scope": "day = 1", "publish": "WhenComplete"}}
        decision = decided(scoped, ended(WHOLE), refresh=True, head=Head(9, 1, "t"))

        assert isinstance(decision, Refuse)
        assert "spec.target.delta.scope is set" in decision.error.message
        assert isinstance(decided(scoped, ended(WHOLE)), Stay)

    def test_a_refresh_of_a_strategy_that_ends_for_good_is_refused(self) -> None:
        """It would end at once without the later rows, which looks like a refresh."""
        refused = decided(CHAIN, ended(), refresh=True, head=Head(4, 0))

        assert isinstance(refused, Refuse)
        assert "does not allow a refresh of a job that has ended" in refused.error.message

    @pytest.mark.parametrize(
        ("error", "expected"),
        [
            (SnapshotExpiredError("version 0 is gone."), SnapshotExpiredError),
            (ChangeFeedExpiredError("version 4 was removed."), SnapshotExpiredError),
            (OffsetsExpiredError("offset 7 is gone."), OffsetsExpiredError),
        ],
    )
    def test_expired_changes_name_the_position_and_a_remedy(
        self, error: BackfillError, expected: type[BackfillError]
    ) -> None:
        """The target is still complete at that position."""
        explained = expired_after_end(error, "version 3")

        assert type(explained) is expected
        assert explained.message.startswith("the changes of the source after version 3 are gone: ")
        assert "another jobId and another target" in explained.hint

    def test_another_error_is_not_an_expiry(self) -> None:
        """Its own hint is the right one."""
        error = PermissionDeniedError("no")
        assert expired_after_end(error, "version 3") is error


class TestTheStateOfARefresh:
    """The target records from which position, and when, a finished job ran again."""

    def test_a_refresh_is_stored_with_its_first_position(self) -> None:
        """A state stays readable for `status` without a driver."""
        state = ended(WHOLE).continued(1_700_000_000_000, follows=False)

        assert JobState.decode(state.encode()).refresh == state.refresh
        assert state.refresh == Refresh(3, 1_700_000_000_000, 12)
        assert (state.finished, state.receipt, state.percent) == (True, WHOLE, 0)

    def test_a_refresh_of_a_topic_is_stored_with_its_offsets(self) -> None:
        """The position of a topic is an object."""
        state = ended(None, {"0": 5}).continued(1, follows=False)

        assert JobState.decode(state.encode()).refresh == Refresh({"0": 5}, 1, 12)

    def test_a_job_that_follows_is_unfinished_and_has_no_refresh(self) -> None:
        """No other job may take its target meanwhile."""
        state = ended(WHOLE).continued(1, follows=True)

        assert (state.finished, state.refresh) == (False, None)

    @pytest.mark.parametrize("damaged", ["3", 3, [], {"after": -1}, {"after": 3, "beganMs": "x", "changesBefore": 0}])
    def test_a_damaged_refresh_is_refused(self, damaged: Any) -> None:
        """A state that cannot be read must not be resumed."""
        document = json.loads(ended().encode()) | {"refresh": damaged}

        with pytest.raises(StateMismatchError, match="refresh"):
            JobState.decode(json.dumps(document))

    def test_a_refresh_describes_its_positions_and_changes(self) -> None:
        """The last line of a run shows them."""
        said = Refresh(3, 0, 12).describe(5, 15, lambda position: f"version {position}")

        assert said == "refreshed from version 3 to version 5 with 3 changes"


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
