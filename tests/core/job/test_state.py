"""The state that a target stores, and the controls in it."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.tables.jobs import job

from backfill_core.errors import StateMismatchError
from backfill_core.job.controls import ALL, HISTORY, Controls
from backfill_core.job.state import SIZE_MAX_BYTES, JobState, check_same_spec
from backfill_core.phases.copy import SPANS_MAX
from backfill_core.positions.intervals import IntervalSet
from backfill_core.protocol.commands import Limit, Pause, Resume, Throttle
from backfill_core.protocol.epochs import txn_version
from backfill_core.protocol.receipt import FileDifference, TableReceipt, VnodeMismatch
from backfill_core.protocol.strategy import Opened, Pinned
from backfill_core.strategies.snapshot.params import SnapshotSettings
from backfill_core.strategies.snapshot.stored import decode
from backfill_core.strategies.snapshot.strategy import snapshot

RECEIPT = TableReceipt(
    3, 9, 12, 100, 256, "ab", (VnodeMismatch(7, 5, 4),), 1.5, verified_ms=7, source_position="version 3"
)
BY_BYTES = replace(RECEIPT, files_by_bytes=100_000, rows_by_rows=7, files=(FileDifference("w-a.parquet", "bits"),))


class TestTheStateComesBackAsItWas:
    """R-SNAP-44: a restart has all sealed values, counts included."""

    @given(
        some.integers(1, 100), some.integers(0, 2**31), some.integers(0, 10**12), some.booleans(),
        some.sampled_from((RECEIPT, BY_BYTES, replace(RECEIPT, source_version=None, source_position="partition 0: 7"))),
    )  # fmt: skip
    def test_every_field_survives_a_round_trip(self, attempt, epoch, rows, finished, receipt):
        """A lost field silently becomes its default and is noticed only at the next crash."""
        state = JobState(
            "a/b", "h", attempt, epoch, "Snapshot", {"done": [[0, 4]]}, 5, rows, 2, 3,
            Controls(HISTORY, 5, 9, None, 4, paused_by=3, limited_by=4, after_limited_by=2),
            receipt, finished,
        )  # fmt: skip

        assert JobState.decode(state.encode()) == state

    def test_a_state_keeps_only_a_few_of_many_differing_files(self):
        """A state has at most 64 KiB, regardless of the table."""
        wrong = tuple(FileDifference(f"{number:04}" + "ä" * 4000, "é" * 4000) for number in range(1000))
        state = JobState("a/b", "h", 1, 1, "Snapshot", receipt=replace(BY_BYTES, files=wrong))

        kept = JobState.decode(state.encode()).receipt
        assert kept is not None
        assert (0 < len(kept.files) < 100, kept.equal, kept.files_by_bytes) == (True, False, 100_000)
        assert len(state.encode()) < 32 * 1024

    def test_another_format_is_refused(self):
        """A partly understood state would lead to wrong rows."""
        document = json.loads(JobState("a/b", "h", 1, 1, "Snapshot").encode()) | {"format": 2}

        with pytest.raises(StateMismatchError, match="format 2"):
            JobState.decode(json.dumps(document))

    @pytest.mark.parametrize(("job_id", "spec_hash"), [("other", "h"), ("a/b", "other")])
    def test_the_state_of_another_spec_is_refused(self, job_id, spec_hash):
        """One target would hold the rows of two different queries."""
        with pytest.raises(StateMismatchError, match="cannot change"):
            check_same_spec(JobState("a/b", "h", 1, 1, "Snapshot"), job_id=job_id, spec_hash=spec_hash)

    def test_the_field_that_differs_is_named(self):
        """Two hashes do not tell the user which field to restore."""
        began, now = job("/a", "/b", transform={"where": "x > 1"}), job("/a", "/c", source={"version": 3})
        stored = JobState("default/job", began.spec_hash, 1, 1, "Snapshot", spec_fields=began.spec_fields)

        with pytest.raises(StateMismatchError) as refused:
            check_same_spec(
                JobState.decode(stored.encode()),
                job_id=now.job_id, spec_hash=now.spec_hash, spec_fields=now.spec_fields,
            )  # fmt: skip
        named = "spec.source.delta.version, spec.target.delta.path, spec.transform.where changed"
        assert named in refused.value.message

    def test_a_state_of_an_earlier_release_names_no_field(self):
        """The state holds one hash; the error reports the difference without fields."""
        text = JobState("a/b", "h", 1, 1, "Snapshot").encode().replace(',"specFields":{}', "")
        assert "specFields" not in text

        with pytest.raises(StateMismatchError, match="this is job 'a/b' with spec other"):
            check_same_spec(JobState.decode(text), job_id="a/b", spec_hash="other", spec_fields={"spec.jobId": "1"})

    def test_the_compared_fields_are_those_of_the_hash(self):
        """Mutable fields are in neither, and a state does not grow with names that users choose freely."""
        properties = {f"delta.x{n}": "v" for n in range(60)}
        first = job("/a", "/b", throttle={"rowsPerSecond": 5}, target={"properties": properties})
        other = job("/a", "/b", verify="Final", target={"properties": properties})

        assert (first.spec_hash, first.spec_fields) == (other.spec_hash, other.spec_fields)
        assert len(first.spec_fields) < 12

    def test_two_thousand_spans_fit_and_a_larger_state_is_refused(self):
        """A state stores spans, not files, so 100,000 files need no more space than one."""
        spans = IntervalSet(tuple((n * 10**9, n * 10**9 + 5) for n in range(2000)))
        state = JobState("a/b", "h", 1, 1, "Snapshot", {"done": spans.to_json()})

        assert len(state.encode()) < SIZE_MAX_BYTES
        with pytest.raises(ValueError, match="bytes"):
            JobState("a/b", "h", 1, 1, "Snapshot", {"done": "x" * SIZE_MAX_BYTES}).encode()

    def test_a_hundred_thousand_files_in_two_thousand_spans_fit(self):
        """This is the largest state that the strategy allows, with every optional part."""
        rows = (1_000_000,) * 100_000
        pinned = Pinned(9, 1, "0" * 36, "f" * 32, rows, sum(rows))
        split = 50_000_000
        spans = [[sum(rows) - at * split, sum(rows) - at * split + split - 1] for at in range(SPANS_MAX, 0, -1)]
        opened, settings = Opened(pinned), SnapshotSettings(merges=True, filtered=False)
        fresh = snapshot(opened, settings).stored.encode()
        stored = decode(fresh | {"done": spans, "rowsRead": 10**11, "splits": 10**5})
        strategy = snapshot(opened, settings, stored)
        wrong = tuple(VnodeMismatch(vnode, 10**9, 10**9) for vnode in range(256))
        state = JobState(
            "n" * 63 + "/" + "n" * 253, "h" * 64, 999, 10**9, "Snapshot", strategy.stored.encode(), 9, 10**11, 10**11, 10**13,
            Controls(HISTORY, 10**9, 10**13, 10**9, 10**6, HISTORY, 10**9, 10**6, 10**6, 10**6),
            TableReceipt(9, 10**9, 10**9, 10**11, 256, "d" * 64, wrong, 1000.5, verified_ms=10**13), False, driver="d" * 16,
        )  # fmt: skip

        assert len(strategy.status.covered) == SPANS_MAX
        assert len(state.encode().encode()) <= SIZE_MAX_BYTES

    def test_a_later_attempt_is_above_every_epoch_of_an_earlier_one(self):
        """Delta rejects the old attempt only by this order."""
        assert txn_version(2, 0) > txn_version(1, 2**32 - 1)


class TestWhoSetIt:
    """A limit of the spec must not be attributed to a command: users would search for a command that does not exist."""

    def test_each_control_keeps_its_own_origin(self):
        """A pause that is undone leaves the origin of the limit unchanged."""
        controls = Controls().under_spec(None, 5).after(Pause(), 1, 0).after(Resume(), 2, 0)

        assert (controls.revision, controls.paused_by, controls.limited_by) == (2, 2, 0)

    def test_a_restored_limit_keeps_its_origin(self):
        """The previous limit returns with its origin when a limit expires."""
        spec = Controls().under_spec(None, 5)
        once = spec.after(Throttle(3, 10), 4, 0)
        twice = once.after(Throttle(2, 20), 5, 0)

        assert (once.limited_by, twice.limited_by) == (4, 5)
        assert [later.at(10**6) for later in (once, twice)] == [replace(spec, revision=4), replace(spec, revision=5)]
        command = spec.after(Throttle(7), 1, 0).after(Throttle(3, 10), 2, 0).at(10**6)
        assert (command.rows_per_s, command.limited_by) == (7, 1)

    def test_an_edited_spec_overrides_earlier_commands(self):
        """The edit is the newest wish of the user."""
        controls = Controls().after(Throttle(3), 4, 0).after(Pause(), 5, 0).under_spec("History", 9)

        assert (controls.rows_per_s, controls.limited_by, controls.paused_by) == (9, 0, 0)

    @pytest.mark.parametrize(
        ("stored", "limited_by", "paused_by"),
        [
            ({"rowsPerSecond": 5, "specRowsPerSecond": 5, "revision": 2}, 0, 0),
            ({"rowsPerSecond": 3, "specRowsPerSecond": 5, "revision": 2}, 2, 0),
            ({"rowsPerSecond": 5, "untilMs": 9, "specRowsPerSecond": 5, "revision": 2}, 2, 0),
            ({"paused": "All", "revision": 2}, 0, 2),
            ({}, 0, 0),
        ],
    )
    def test_a_state_without_origins_is_read(self, stored, limited_by, paused_by):
        """A value that differs from the spec came from a command."""
        read = Controls.from_json(stored)

        assert (read.limited_by, read.paused_by) == (limited_by, paused_by)


class TestControls:
    """Commands stay in force over restarts."""

    def test_pause_and_resume_set_their_scope(self):
        """A pause of everything includes changes; a plain pause includes only the snapshot."""
        paused = Controls().after(Pause(), 1, 0)

        assert (paused.paused, paused.history_held, paused.changes_held) == (HISTORY, True, False)
        assert paused.after(Pause(everything=True), 2, 0).paused == ALL
        assert not paused.after(Resume(), 3, 0).history_held

    def test_an_expired_limit_restores_the_previous_one(self):
        """A limit for an hour must not stay forever."""
        controls = Controls(rows_per_s=500).after(Throttle(10, for_s=30), 1, 1_000)

        assert controls.at(30_999).rows_per_s == 10
        assert controls.at(31_000).rows_per_s == 500

    def test_two_limits_with_expiries_do_not_make_the_first_permanent(self):
        """The second limit must store the value before both."""
        controls = Controls().after(Throttle(10, for_s=30), 1, 0).after(Throttle(20, for_s=30), 2, 10_000)

        assert controls.at(40_000).rows_per_s is None

    def test_a_limit_of_the_spec_ends_and_stays_ended(self):
        """Another attempt with the same spec does not begin it again; an edited end does."""
        limited = Controls().under_spec(None, 9, None, 1_000)
        ended = limited.at(1_000)

        assert (limited.at(999).rows_per_s, ended.rows_per_s, ended.until_ms) == (9, None, None)
        assert ended.under_spec(None, 9, None, 1_000).rows_per_s is None
        assert ended.under_spec(None, 9, None, 2_000).at(1_500).rows_per_s == 9

    def test_a_command_for_a_while_keeps_the_end_of_the_specs_limit(self):
        """The limit of the spec returns only until its own end."""
        limited = Controls().under_spec(None, 9, None, 60_000).after(Throttle(3, for_s=10), 1, 0)

        assert [limited.at(ms).rows_per_s for ms in (9_999, 10_000, 59_999, 60_000)] == [3, 9, 9, None]
        assert limited.after(Throttle(2, for_s=100), 2, 0).at(100_000).rows_per_s is None
        assert Controls.from_json(limited.to_json()) == limited

    @pytest.mark.parametrize(("ms", "rows"), [(0, 5), (999, 5), (1_000, 7), (1_999, 7), (2_000, None)])
    def test_a_command_until_a_time_names_the_limit_that_follows(self, ms, rows):
        """The limit in force before does not return: the sender may have changed it meanwhile."""
        command = Throttle(5, until_ms=1_000, then=Limit(7, None, 2_000))

        assert Controls(rows_per_s=500).after(command, 1, 0).at(ms).rows_per_s == rows
        assert Controls(rows_per_s=500).after(command, 1, ms).rows_per_s == rows

    def test_a_limit_of_the_spec_is_attributed_to_the_spec_after_a_command(self):
        """A pause has a revision, and a limit with an end was once attributed to it after a restart."""
        paused = Controls().under_spec(None, 9, None, 60_000).after(Pause(), 3, 0)

        assert Controls.from_json(paused.to_json()).limited_by == 0

    def test_a_limit_of_zero_holds_history_like_a_pause(self):
        """Zero rows per second is a pause and must look like one; the same applies to zero bytes."""
        assert Controls().after(Throttle(0), 1, 0).history_held
        assert Controls().after(Throttle(5, bytes_per_s=0), 1, 0).history_held

    def test_a_command_sets_both_limits(self):
        """Rows and bytes are one limit: a user who requests a row limit does not want an old byte limit as well."""
        both = Controls().under_spec(None, 9, 90).after(Throttle(None, 30, 50), 1, 0)

        assert (both.rows_per_s, both.bytes_per_s, both.format_limit) == (None, 50, "50 bytes/s")
        back = both.at(30_000)
        assert (back.rows_per_s, back.bytes_per_s, back.limited_by) == (9, 90, 0)
        assert back.format_limit == "9 rows/s and 90 bytes/s"
        assert both.after(Throttle(3), 2, 0).bytes_per_s is None
        assert both.under_spec(None, 9, 90).bytes_per_s == 50
        assert both.under_spec(None, 9, 91).bytes_per_s == 91
        assert not Controls().limited
        assert both.limited

    def test_a_command_stays_in_force_over_the_same_spec(self):
        """R-PROG-8: a restart is no reason to lose a command."""
        stored = Controls().under_spec(None, 1000).after(Throttle(5), 1, 0)

        assert stored.under_spec(None, 1000).rows_per_s == 5

    def test_a_changed_spec_wins_over_the_command(self):
        """The newest wish of the user is in force."""
        stored = Controls().under_spec(None, 1000).after(Throttle(5), 1, 0)

        assert stored.under_spec(None, 2000).rows_per_s == 2000

    @given(
        some.sampled_from(
            [
                Pause(),
                Pause(everything=True),
                Resume(),
                Throttle(7),
                Throttle(7, 3.0, 70),
                Throttle(None, None, 5),
                Throttle(7, until_ms=50, then=Limit(3, 4, 90)),
            ]
        )
    )
    def test_controls_survive_a_round_trip(self, command):
        """A limit must hold after a restart too."""
        controls = Controls().under_spec(HISTORY, 9, 90).after(command, 3, 1)

        assert Controls.from_json(json.loads(json.dumps(controls.to_json()))) == controls


class TestAStateThatAnUndoStoresAgain:
    """A further transaction of the job would tell the next attempt that the job's rows were removed."""

    RETURNED = JobState("j", "h", 0, 0, "Replica", consumed=65)

    @pytest.mark.parametrize(
        ("attempt", "consumed", "txn", "stored"),
        [
            pytest.param(15, 65, txn_version(15, 3), True, id="an earlier run of the undo stored it"),
            pytest.param(15, 65, txn_version(16, 0), False, id="a later attempt removed its rows"),
            pytest.param(15, 65, None, False, id="no transaction"),
            pytest.param(15, 60, txn_version(15, 0), False, id="later changes were copied back"),
        ],
    )
    def test_is_stored_once(self, attempt, consumed, txn, stored):
        """Only the state of the newest transaction is continued."""
        held = replace(self.RETURNED, attempt=attempt, consumed=consumed)

        assert held.is_returned(self.RETURNED, txn) is stored
