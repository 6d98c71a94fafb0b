"""The core's view in the format of the API."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.simulation.hand_driven import HandDriven

from backfill_core.errors import StateMismatchError
from backfill_core.job.controls import ALL, Controls
from backfill_core.job.state import JobState
from backfill_core.positions.offsets import OffsetRange
from backfill_core.protocol.commands import Pause
from backfill_core.protocol.events import CommandReceived, Head, StopRequested
from backfill_core.protocol.receipt import FileDifference, TableReceipt, VnodeMismatch
from backfill_core.protocol.strategy import JobWarning, StoredSummary
from backfill_spark.control.wire import to_api_receipt, to_api_source_head
from backfill_spark.driver.progress import progress_of, progress_of_state

LONG = [1_000_000] * 40


def shown(job):
    return progress_of(job.view, job.now)


class TestWhatIsShown:
    def test_the_time_of_the_newest_seal_is_shown(self):
        """Every job needs an alert on the age of its newest seal."""
        job = HandDriven(*LONG)
        job.let_pass(1.5)
        job.finish_split()
        job.let_pass(1.0)

        assert shown(job).last_commit_time == "2023-11-14T22:13:22Z"

    def test_stopping_is_a_field(self):
        """A program must not parse the reason."""
        job = HandDriven(*LONG)
        assert not shown(job).stopping
        job.send(StopRequested())

        assert shown(job).stopping

    def test_a_paused_job_has_no_eta(self):
        """A pause has no known end."""
        job = HandDriven(*LONG)
        job.let_pass(30.0, split_s=2.0)
        assert shown(job).eta is not None
        job.send(CommandReceived(1, 1, Pause()))
        job.let_pass(2.0)

        paused = shown(job)
        assert (paused.eta, paused.eta_seconds, paused.rows_per_second) == (None, None, 0)

    def test_the_time_of_a_receipt_is_shown(self):
        """A proof has a date; one of an older release may have none."""
        receipt = TableReceipt(3, 9, 12, 100, 256, "ab", (), 1.5, verified_ms=1_700_000_000_000)

        assert to_api_receipt(receipt).verified_at == "2023-11-14T22:13:20Z"
        assert to_api_receipt(TableReceipt(3, 9, 12, 100, 256, "ab", (), 1.5)).verified_at is None

    def test_a_vnode_with_negative_rows_is_shown(self):
        """A changelog that lost its inserts still has their removals: the receipt reports this difference and no internal error."""
        receipt = TableReceipt(3, 9, 12, 100, 256, "ab", (VnodeMismatch(7, 0, -2),), 1.5)

        assert to_api_receipt(receipt).mismatches[0].target_rows == -2

    def test_a_long_message_is_truncated(self):
        """An error message of a storage may be a page long; reading the progress must not end the job."""
        job = HandDriven(*LONG)
        view = replace(job.view, reason="x" * 5000, warnings=(JobWarning("ForeignCommits", "y" * 5000),))

        progress = progress_of(view, job.now)

        assert (len(progress.reason), len(progress.warnings[0])) == (4096, 4096)
        assert progress.warning_codes == ("ForeignCommits",)


def leaves(value, above=()):
    """Yield the path of each value of a document."""
    yield above
    if isinstance(value, dict | list):
        for name in value if isinstance(value, dict) else range(len(value)):
            yield from leaves(value[name], (*above, name))


def with_value(document, path, value):
    """Return a document with another value in one place."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = with_value(copy[path[0]], path[1:], value)
    return copy


RECEIPT = TableReceipt(
    3, 9, 12, 100, 256, "ab", (VnodeMismatch(7, 0, -2),), 1.5, verified_ms=7, rows_filtered=1, rows_total=2, rows_by_rows=3,
    files=(FileDifference("a.parquet", "bits"),), source_position="version 3", cut_off=(OffsetRange("0", 5, 9),),
)  # fmt: skip
STATE = JobState(
    "a/b", "h", 3, 7, "Snapshot", {"done": [[0, 4]]}, 5, 10, 2, 3, Controls(ALL, 5, 9, 4, 4, paused_by=4, limited_by=4, bytes_per_s=3), RECEIPT,
    spec_fields={"a": "b"}, percent=50, committed_ms=7,
)  # fmt: skip
STORED = json.loads(STATE.encode())
HOSTILE = (
    None,
    True,
    -1,
    2**53,
    10**400,
    -(10**400),
    1e300,
    float("inf"),
    "",
    "x" * 9000,
    "\ud800",
    [],
    [[]],
    {},
    {"a": []},
)


class TestAStateThatAnotherWriterChanged:
    """Any writer of the target may write its log. The error names the field, and is not an error of pydantic (fault S10)."""

    @given(some.sampled_from(sorted(leaves(STORED), key=str)), some.sampled_from(HOSTILE))
    def test_a_changed_state_is_refused_by_name_or_shown(self, path, value):
        """The driver, `status` and `verify` read it first."""
        try:
            state = JobState.decode(json.dumps(with_value(STORED, path, value)))
        except StateMismatchError:
            return
        summary = StoredSummary("Snapshot", 100, 10, 0, 1)
        progress_of_state(state, summary, str)
        if state.receipt is not None:
            to_api_receipt(state.receipt)

    @pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "7", "null", "\ud800"], ids=lambda text: text[:5])
    def test_a_state_that_is_no_document_is_refused(self, text):
        """It used to print a traceback of json."""
        with pytest.raises(StateMismatchError, match="no JSON object"):
            JobState.decode(text)

    def test_an_unchanged_state_is_read(self):
        """A reader that rejects every state would also satisfy the property above."""
        assert JobState.decode(STATE.encode()) == STATE


class TestTheHeadOfASource:
    @pytest.mark.parametrize("timestamp_ms", [-(2**63), -1, 2**63])
    @pytest.mark.parametrize("version", [0, 2**63])
    def test_any_head_is_shown(self, version, timestamp_ms):
        """Commits may contain any of these numbers."""
        shown = to_api_source_head(Head(version, timestamp_ms, "t"), 7, str, now_ms=10**12)

        assert shown.behind >= 0
