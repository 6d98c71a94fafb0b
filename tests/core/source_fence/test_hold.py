"""A hold makes the retention of a source longer while jobs need it; afterwards it is as before, unless a user changed it."""

import json
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.source_fence.memory_log import FIRST_MS, MemoryLog, after_entry, table_head

from backfill_core.errors import (
    FencedError,
    PermissionDeniedError,
    SnapshotExpiredError,
    SourceFencedError,
    TransientError,
    UnsupportedSourceFeatureError,
)
from backfill_core.source_fence.fence import LogEntry, Request, fence_step
from backfill_core.source_fence.hold import (
    FILE_RETENTION,
    HELD,
    LOG_RETENTION,
    Held,
    Unheld,
    end_hold_step,
    hold_step,
    is_last,
)
from backfill_core.source_fence.table_protocol import HOLD, TableProtocol

OURS = Request("shop/orders", "2026-11-26T22:00:00Z", FIRST_MS + 5000, "entry-1")
THEIRS = Request("shop/other", "2026-11-26T22:01:00Z", FIRST_MS + 6000, "entry-2")
RETENTION_S = MemoryLog(None).retention_s


def held(head, request=OURS):
    """Return a table after a step of a hold."""
    step = hold_step(head, request, RETENTION_S)
    return after_entry(head, step) if isinstance(step, LogEntry) else head


def freed(head, request=OURS):
    """Return a table after the end of a hold."""
    step = end_hold_step(head, request)
    return after_entry(head, step) if isinstance(step, LogEntry) else head


def edited(head, **properties):
    """Return a table after an edit by a user."""
    names = {"log": LOG_RETENTION, "files": FILE_RETENTION}
    merged = {**head.properties, **{names[name]: value for name, value in properties.items()}}
    return replace(head, version=head.version + 1, metadata={**head.metadata, "configuration": merged})


class TestAHold:
    """One commit has the longer retention and the earlier values."""

    def test_one_entry_extends_both_retentions_and_records_the_earlier_values(self):
        """A kill between two entries would lose the values."""
        before = table_head()
        after = held(before)

        assert after.version == before.version + 1
        assert (after.properties[LOG_RETENTION], after.properties[FILE_RETENTION]) == (HELD, HELD)
        assert json.loads(after.properties[HOLD]) == {
            "jobs": ["shop/orders"], "before": {LOG_RETENTION: "interval 9 days", FILE_RETENTION: None},
        }  # fmt: skip
        assert after.properties["owner"] == "sales"
        assert after.protocol == before.protocol

    def test_a_source_that_keeps_its_versions_long_enough_is_not_touched(self):
        """A right to write is then not needed."""
        head = table_head(properties={LOG_RETENTION: "interval 90 days", FILE_RETENTION: "interval 400 days"})

        assert hold_step(head, OURS, RETENTION_S) == Held(head.version)

    def test_a_second_attempt_changes_nothing(self):
        """A user may have shortened the retention meanwhile."""
        head = edited(held(table_head()), log="interval 1 days")

        assert hold_step(head, OURS, RETENTION_S) == Held(head.version)

    def test_a_table_without_a_safe_log_entry_is_refused_with_the_field(self):
        """The message tells what works instead."""
        head = table_head(TableProtocol(1, 7, None, ("catalogManaged",)))
        with pytest.raises(UnsupportedSourceFeatureError) as refused:
            hold_step(head, OURS, RETENTION_S)

        assert str(refused.value).startswith("spec.source: hold: Extend adds an entry to the log of the source")
        assert "hold: Warn" in refused.value.hint

    def test_the_fence_of_another_job_is_kept(self):
        """Its job relies on the version at which the source stands still."""
        head = table_head()
        fenced = after_entry(head, fence_step(head, THEIRS))
        with pytest.raises(SourceFencedError):
            hold_step(fenced, OURS, RETENTION_S)
        assert isinstance(hold_step(fenced, THEIRS, RETENTION_S), LogEntry)


class TestTheEnd:
    """The last job restores what it found, and nothing else."""

    def test_the_earlier_values_return(self):
        """A property that was not set is removed again."""
        before = table_head()

        assert freed(held(before)).properties == before.properties

    def test_a_later_edit_is_not_overwritten(self):
        """The edit is newer than the values of the hold."""
        after = freed(edited(held(table_head()), log="interval 30 days"))

        assert after.properties == {LOG_RETENTION: "interval 30 days", "owner": "sales"}

    def test_the_source_is_held_until_its_last_job_ends(self):
        """Jobs of one source end in any order."""
        before = table_head()
        both = held(held(before), THEIRS)

        one_left = freed(both)
        assert (one_left.properties[LOG_RETENTION], one_left.properties[FILE_RETENTION]) == (HELD, HELD)
        assert freed(one_left, THEIRS).properties == before.properties

    def test_a_job_without_a_hold_changes_nothing(self):
        """`backfill release` asks for each job."""
        head = held(table_head(), THEIRS)

        assert end_hold_step(head, OURS) == Unheld(head.version)
        assert end_hold_step(table_head(), OURS) == Unheld(table_head().version)

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"jobs": [1], "before": {}}', '{"jobs": ["shop/orders"]}'])
    def test_an_unreadable_property_is_not_used(self, text):
        """A user may have edited it."""
        head = table_head(properties={HOLD: text})

        assert end_hold_step(head, OURS) == Unheld(head.version)

    @pytest.mark.parametrize(
        ("outcome", "error", "last"),
        [
            ("Complete", None, True),
            ("Stopped", None, False),
            ("Failed", SnapshotExpiredError("gone"), True),
            ("Failed", PermissionDeniedError("no"), True),
            ("Failed", TransientError("later"), False),
            ("Failed", FencedError("another driver"), False),
        ],
    )
    def test_only_the_last_attempt_ends_a_hold(self, outcome, error, last):
        """A job that is stopped or retried needs the old versions again."""
        assert is_last(outcome, error) is last


class TestAnyOrder:
    """Whatever jobs and users do, no value of a user is lost."""

    @given(
        st.lists(
            st.sampled_from(["hold ours", "hold theirs", "end ours", "end theirs", "edit log", "edit files"]),
            max_size=12,
        )
    )
    def test_a_source_without_jobs_has_the_values_of_its_users(self, acts):
        """The users' values are tracked separately: each edit replaces one, and nothing else does."""
        head, users = table_head(), {LOG_RETENTION: "interval 9 days", FILE_RETENTION: None}
        steps = {"hold": held, "end": freed}
        for number, act in enumerate([*acts, "end ours", "end theirs"]):
            verb, who = act.split()
            if verb == "edit":
                value = f"interval {100 + number} days"
                users[{"log": LOG_RETENTION, "files": FILE_RETENTION}[who]] = value
                head = edited(head, **{who: value})
            else:
                head = steps[verb](head, OURS if who == "ours" else THEIRS)

        expected = {name: value for name, value in users.items() if value is not None}
        assert head.properties == {"owner": "sales", **expected}


class TestConcurrentWriters:
    """An entry is written only as the version that was decided on."""

    def test_a_concurrent_edit_is_seen(self):
        """The step decides again on the newer version."""
        log = MemoryLog(table_head())
        log.before_put.append(lambda: log.heads.append(edited(log.head(), log="interval 120 days")))
        step = partial(hold_step, request=OURS, retention=RETENTION_S)
        while isinstance(entry := step(log.head()), LogEntry):
            log.put(entry)

        assert log.head().properties[LOG_RETENTION] == "interval 120 days"
        assert freed(log.head()).properties == {LOG_RETENTION: "interval 120 days", "owner": "sales"}
