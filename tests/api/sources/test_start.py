"""Start of a job in its spec: a version, a time, or only the changes after one of them."""

import pytest
from support.tables.jobs import job

from backfill_api.load import SpecError

TIME = "2026-11-26T18:00:00+02:00"


class TestAStart:
    """A job has one start, and a time names one instant."""

    def test_a_time_has_a_zone(self):
        """The same spec must not start elsewhere on another machine."""
        params = job("/s", "/t", source={"timestamp": TIME}).spec.source.params

        assert (params.start_version, params.start_ms) == (None, 1_795_708_800_000)
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", source={"timestamp": "2026-11-26T18:00:00"})
        assert str(refused.value.errors[0]).startswith("spec.source.delta.timestamp: ")

    def test_a_version_and_a_time_are_refused(self):
        """One of them would be ignored."""
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", source={"timestamp": TIME, "version": 3})

        [message] = map(str, refused.value.errors)
        assert message.startswith("spec.source.delta.timestamp: ")
        assert "remove timestamp or version" in message

    def test_a_start_belongs_to_the_identity_of_a_job(self):
        """A state of one start must not continue with another one."""
        starts = ({}, {"version": 3}, {"timestamp": TIME}, {"changesOnly": True})

        assert len({job("/s", "/t", source=start).spec_hash for start in starts}) == len(starts)


class TestChangesOnly:
    """A job without a snapshot refuses whatever needs one, by the name of the field."""

    @pytest.mark.parametrize(
        ("spec", "field", "hint"),
        [
            ({"strategy": {"type": "Replica"}}, "spec.source.delta.changesOnly", "strategy.type: Snapshot"),
            ({"strategy": {"type": "Arrangement"}}, "spec.source.delta.changesOnly", "strategy.type: Snapshot"),
            ({"verify": "Final"}, "spec.verify", "verify: None"),
            ({"switch": {"when": "WhenVerified"}, "after": "Follow"}, "spec.switch.when", "remove it"),
            ({"target": {"publish": "WhenComplete"}}, "spec.target.delta.publish", "remove it"),
            (
                {"target": {"publish": "WhenComplete", "scope": "id = 1"}},
                "spec.target.delta.scope",
                "remove it",
            ),
        ],
    )
    def test_whatever_needs_a_snapshot_is_refused(self, spec, field, hint):
        """The job would compare, show or replace rows that it did not copy."""
        assert job("/s", "/t", **spec)
        with pytest.raises(SpecError) as refused:
            job("/s", "/t", source={"changesOnly": True}, **spec)

        [message] = map(str, refused.value.errors)
        assert message.startswith(f"{field}: ")
        assert hint in message

    def test_an_upsert_target_may_have_the_rows_already(self):
        """The changes replace the rows of their keys: another tool copied the table as of that version."""
        assert job("/s", "/t", source={"changesOnly": True, "version": 3}, target={"existingRows": "Keep"})
        with pytest.raises(SpecError):
            job("/s", "/t", source={"version": 3}, target={"existingRows": "Keep"})
