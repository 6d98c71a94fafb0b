"""States that earlier builds stored in targets: the job reads each state or rejects it with the name of the field.

The files are states of real attempts, written by the build before the typed stored state.
"""

import json
from pathlib import Path

import pytest
from support.tables.jobs import job

from backfill_core import strategies
from backfill_core.errors import StateMismatchError
from backfill_core.job.job import Job
from backfill_core.job.phase import JobSettings
from backfill_core.job.state import JobState
from backfill_core.protocol.actions import Seal
from backfill_core.protocol.clock import Now
from backfill_core.protocol.events import Head, Sealed, SourcePolled, Tick
from backfill_core.protocol.strategy import Opened, Pinned, PinVersion
from backfill_core.protocol.work import ApplyChanges, ProveKey, ReadSplit

SNAPSHOT = strategies.discover()["Snapshot"]
HERE = Path(__file__).parent / "stored_states"
NOW = Now(0.0, 1_700_000_000_000)
ANNOUNCED = (1 << 32) + 7
"""Transaction version of the announced MERGE."""


def text_of(name):
    return (HERE / f"{name}.json").read_text()


def resumed(name, *, last_txn=None):
    """Return a stored state and the strategy that resumes from it; an unproven key is still to be proven."""
    state = JobState.decode(text_of(name))
    stored = SNAPSHOT.decode(state.progress)
    pinned = Pinned(3, 0, "table", "files", (1_000_000,) * stored.copied.files, 1_000_000 * stored.copied.files)
    spec = job("/a", "/b", after="Follow").spec
    return state, SNAPSHOT.resume(spec, stored, Opened(pinned, last_txn, proves_key=True))


def first_work(name, **given):
    """Return the work that the next attempt starts once it has fenced and read version 12."""
    state, strategy = resumed(name, **given)
    attempt = Job(state, strategy, JobSettings(follows=True), NOW)
    todo, work = list(attempt.start(NOW)), []
    versions = iter(range(1, 100))
    while todo:
        action = todo.pop(0)
        if isinstance(action, Seal):
            todo += attempt.on(Sealed(action.epoch, next(versions), 0.1), NOW)
            todo += attempt.on(SourcePolled(Head(12, NOW.wall_ms)), NOW)
            todo += attempt.on(Tick(), Now(2.0, NOW.wall_ms + 2000))
        work += [action.work] if hasattr(action, "work") else []
    return work


class TestAStateOfTheReleaseBefore:
    """A job must continue after an upgrade in its middle."""

    @pytest.mark.parametrize("name", ["copying", "announced", "live", "finished"])
    def test_a_state_is_unchanged_when_it_is_stored_again(self, name):
        """Stored fields keep their names and values; the proof of the key is now inside the strategy's state."""
        early = json.loads(text_of(name))
        state, strategy = resumed(name)
        again = strategy.stored.encode()

        assert again == early["snapshot"] | {"keyProven": early["keyProven"], "merging": None}
        kept = {"jobId", "attempt", "epoch", "rowsDone", "changesDone", "controls", "receipt", "finished", "percent"}
        written = json.loads(state.encode())
        assert {field: written[field] for field in kept} == {field: early[field] for field in kept}

    def test_a_half_done_copy_reads_only_the_missing_files(self):
        """The state contains 44 of 120 files."""
        _, strategy = resumed("copying")
        work = first_work("copying")

        assert (strategy.status.covered, strategy.status.consumed) == (((0, 44_000_000),), None)
        assert work[0].start == 44_000_000
        assert all(isinstance(split, ReadSplit) for split in work)

    @pytest.mark.parametrize(
        ("last_txn", "consumed"), [(ANNOUNCED, 9), (ANNOUNCED - 1, 3)], ids=["merged", "not-merged"]
    )
    def test_a_resumed_job_detects_whether_an_announced_merge_happened(self, last_txn, consumed):
        """A repeated MERGE costs time; a missing MERGE loses rows."""
        _, strategy = resumed("announced", last_txn=last_txn)
        (batch,) = first_work("announced", last_txn=last_txn)

        assert strategy.status.position == consumed
        assert isinstance(batch, ApplyChanges)
        assert (batch.after, batch.upto) == (consumed, 12)

    def test_a_caught_up_job_continues_after_the_consumed_version(self):
        """Its key was proven then and is not proven again."""
        (batch,) = first_work("live")

        assert (type(batch), batch.after) == (ApplyChanges, 9)

    def test_an_unproven_key_is_proven_first(self):
        """The state is the finished one, as it would have been stored just before the proof."""
        assert [type(work) for work in first_work("finished")] == [ProveKey]

    def test_a_finished_job_keeps_its_receipt(self):
        """`status` and `verify` show the receipt after an upgrade."""
        state = JobState.decode(text_of("finished"))

        assert (state.finished, state.receipt.equal, state.receipt.rows) == (True, True, 1_000_000)

    def test_a_resumed_job_requests_its_pinned_version(self):
        """After a complete copy, the last consumed version also suffices."""
        requests = [
            SNAPSHOT.open_request(SNAPSHOT.decode(JobState.decode(text_of(name)).progress))
            for name in ("copying", "announced", "live")
        ]

        assert requests == [PinVersion(3, None, "table"), PinVersion(3, None, "table"), PinVersion(3, 9, "table")]


class TestAStateThatDoesNotFit:
    """A state of a newer release or an edited state is rejected, and the error names the wrong field."""

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("version", "3"),
            ("phase", "Rearranging"),
            ("done", [[5, 2]]),
            ("consumed", None),
            ("merging", [1]),
            ("rowsLive", "many"),
            ("files", True),
        ],
    )
    def test_a_wrong_value_is_refused_by_field_name(self, field, value):
        """A job that resumes from a damaged state could lose rows."""
        progress = JobState.decode(text_of("copying")).progress

        with pytest.raises(StateMismatchError, match=rf"snapshot\.{field} is") as refused:
            SNAPSHOT.decode({**progress, field: value})
        assert "another target" in refused.value.hint

    def test_a_missing_field_is_refused(self):
        """The check includes the fields of the announcement."""
        progress = JobState.decode(text_of("announced")).progress

        with pytest.raises(StateMismatchError, match=r"snapshot\.merging\.txn is 'None'"):
            SNAPSHOT.decode({**progress, "merging": {"upto": 9}})
