"""States that targets hold from earlier builds: whatever is stored there is read, or refused by name.

The files are states of real attempts, as the build before the typed stored state wrote them.
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
    """Return the state and the strategy that go on from it, with the key to be proven where it was not."""
    state = JobState.decode(text_of(name))
    stored = SNAPSHOT.decode(state.progress)
    pinned = Pinned(3, 0, "table", "files", (1_000_000,) * stored.copied.files, 1_000_000 * stored.copied.files)
    spec = job("/a", "/b", after="Follow").spec
    return state, SNAPSHOT.resume(spec, stored, Opened(pinned, last_txn, proves_key=True))


def first_work(name, **given):
    """Return what the next attempt starts once it has fenced and seen version 12."""
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
    """An upgrade in the middle of a job must go on with it."""

    @pytest.mark.parametrize("name", ["copying", "announced", "live", "finished"])
    def test_says_the_same_when_it_is_stored_again(self, name):
        """What was stored stays, under its name; the proof of the key stands inside now."""
        early = json.loads(text_of(name))
        state, strategy = resumed(name)
        again = strategy.stored.encode()

        assert again == early["snapshot"] | {"keyProven": early["keyProven"], "merging": None}
        kept = {"jobId", "attempt", "epoch", "rowsDone", "changesDone", "controls", "receipt", "finished", "percent"}
        written = json.loads(state.encode())
        assert {one: written[one] for one in kept} == {one: early[one] for one in kept}

    def test_in_the_middle_of_a_copy_reads_only_what_is_missing(self):
        """44 of 120 files are there."""
        _, strategy = resumed("copying")
        work = first_work("copying")

        assert (strategy.status.covered, strategy.status.consumed) == (((0, 44_000_000),), None)
        assert work[0].start == 44_000_000
        assert all(isinstance(one, ReadSplit) for one in work)

    @pytest.mark.parametrize(
        ("last_txn", "consumed"), [(ANNOUNCED, 9), (ANNOUNCED - 1, 3)], ids=["merged", "not-merged"]
    )
    def test_with_an_announced_merge_knows_whether_it_happened(self, last_txn, consumed):
        """A MERGE that is done twice costs time; one that is left out costs rows."""
        _, strategy = resumed("announced", last_txn=last_txn)
        (batch,) = first_work("announced", last_txn=last_txn)

        assert strategy.status.position == consumed
        assert isinstance(batch, ApplyChanges)
        assert (batch.after, batch.upto) == (consumed, 12)

    def test_that_had_caught_up_goes_on_after_what_it_consumed(self):
        """Its key was proven then, and is not proven again."""
        (batch,) = first_work("live")

        assert (type(batch), batch.after) == (ApplyChanges, 9)

    def test_of_a_key_that_was_not_proven_proves_it_first(self):
        """It is the finished one, had it been stored a moment earlier."""
        assert [type(one) for one in first_work("finished")] == [ProveKey]

    def test_of_a_finished_job_keeps_its_receipt(self):
        """`status` and `verify` show it after an upgrade."""
        state = JobState.decode(text_of("finished"))

        assert (state.finished, state.receipt.equal, state.receipt.rows) == (True, True, 1_000_000)

    def test_asks_for_the_version_it_pinned(self):
        """Once all of it was read, the one consumed last will do."""
        requests = [
            SNAPSHOT.open_request(SNAPSHOT.decode(JobState.decode(text_of(one)).progress))
            for one in ("copying", "announced", "live")
        ]

        assert requests == [PinVersion(3, None, "table"), PinVersion(3, None, "table"), PinVersion(3, 9, "table")]


class TestAStateThatDoesNotFit:
    """A state of a newer release, or one that was edited: the field that is wrong is named."""

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
    def test_is_refused_by_name(self, field, value):
        """Going on with it could lose rows."""
        progress = JobState.decode(text_of("copying")).progress

        with pytest.raises(StateMismatchError, match=rf"snapshot\.{field} is") as refused:
            SNAPSHOT.decode({**progress, field: value})
        assert "another target" in refused.value.hint

    def test_without_a_field_is_refused_too(self):
        """Also the fields of the announcement."""
        progress = JobState.decode(text_of("announced")).progress

        with pytest.raises(StateMismatchError, match=r"snapshot\.merging\.txn is 'None'"):
            SNAPSHOT.decode({**progress, "merging": {"upto": 9}})
