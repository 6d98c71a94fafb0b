"""A CRD that is older than the operator: the server silently drops unknown fields."""

import pytest
from support.operators.rig import Rig

from backfill_operator.reconcile.status_writer import dropped_paths


def without(*names):
    """Return the change of an API server whose CRD does not define these fields of the status."""
    return lambda plural, status: {name: value for name, value in status.items() if name not in names}


class TestAStatusThatIsNotKept:
    @pytest.mark.parametrize("lost", [["attempt"], ["attempts"], ["control"], ["conditions", "phase"]])
    async def test_launch_is_refused_and_reported_if_the_status_is_not_kept(self, lost):
        """The next reconcile would launch an unrecorded attempt again, concurrently with the first one."""
        async with Rig() as rig:
            rig.store.prune = without(*lost)
            rig.create()
            await rig.until(lambda: "CrdOutdated" in rig.events())
            [event] = [event for event in rig.store.objects["events"].values() if event["reason"] == "CrdOutdated"]
            assert f"status.{lost[0]}" in event["note"]
            await rig.still(lambda: rig.objects() == [], for_s=1.5)
            rig.store.prune = without()
            rig.edit(backoffLimit=5)
            await rig.until_holds("Running")

    async def test_running_job_continues_if_the_status_is_not_kept(self):
        """The driver continues, and receives commands again with the right CRD."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.store.prune = without("control")
            rig.edit(desiredState="Paused")
            await rig.until(lambda: "CrdOutdated" in rig.events())
            assert rig.pods() == {"orders-1-driver": "Running"}
            rig.store.prune = without()
            rig.annotate(touched="yes")
            await rig.until_holds("Paused")

    @pytest.mark.parametrize(
        ("patch", "answer", "lost"),
        [
            ({"a": 1}, {"a": 1, "b": 2}, []),
            ({"a": None}, {}, []),
            ({"a": 1}, {}, ["a"]),
            ({"a": {"b": 1, "c": None}}, {"a": {"b": 1, "d": 2}}, []),
            ({"a": {"b": 1}}, {"a": {}}, ["a.b"]),
            ({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, ["a[0].c"]),
            ({"a": [1, 2]}, {"a": [1]}, ["a"]),
            ({"a": {}}, {"a": {}}, []),
        ],
    )
    def test_dropped_fields_are_reported_by_path(self, patch, answer, lost):
        """Fields that the server adds are ignored."""
        assert dropped_paths(patch, answer) == lost


class TestASpecOfANewerCrd:
    """The CRD was upgraded first, or the operator was rolled back: the spec has fields that the operator does not support."""

    async def test_spec_of_a_newer_crd_is_refused_with_the_field(self):
        """The meaning of the field is unknown, so the operator must not launch a driver without it. Other specs run."""
        async with Rig() as rig:
            rig.create("newer", colour="red")
            rig.create("known")
            await rig.until(lambda: rig.condition("Stalled", "newer"))
            await rig.until_holds("Running", "known")

            [stalled] = [condition for condition in rig.status("newer")["conditions"] if condition["type"] == "Stalled"]
            assert stalled["reason"] == "SpecRefused"
            assert "spec.colour" in stalled["message"]

    async def test_running_job_continues_after_a_rollback(self):
        """A rollback of the operator must not end running jobs."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(colour="red")
            await rig.until(lambda: rig.condition("Stalled"))
            await rig.still(lambda: rig.pods() == {"orders-1-driver": "Running"}, for_s=1.5)
            rig.edit(colour=None)
            await rig.until_holds("Running")
