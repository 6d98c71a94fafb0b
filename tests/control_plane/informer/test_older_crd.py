"""A CRD that is older than the operator: the server drops what it does not know, and says nothing."""

import pytest
from support.operators.rig import Rig

from backfill_operator.reconcile.status_writer import dropped_paths


def without(*names):
    """Return what an API server does whose CRD does not know these fields of the status."""
    return lambda plural, status: {name: one for name, one in status.items() if name not in names}


class TestAStatusThatIsNotKept:
    @pytest.mark.parametrize("lost", [["attempt"], ["attempts"], ["control"], ["conditions", "phase"]])
    async def test_launches_nothing_and_is_said(self, lost):
        """An attempt that is not on record is made again by the next look, beside the one that is there."""
        async with Rig() as rig:
            rig.store.prune = without(*lost)
            rig.create()
            await rig.until(lambda: "CrdOutdated" in rig.events())
            [event] = [one for one in rig.store.objects["events"].values() if one["reason"] == "CrdOutdated"]
            assert f"status.{lost[0]}" in event["note"]
            await rig.still(lambda: rig.objects() == [], for_s=1.5)
            rig.store.prune = without()
            rig.edit(backoffLimit=5)
            await rig.until_holds("Running")

    async def test_stops_nothing_that_runs(self):
        """The driver goes on; it is steered again when the CRD is the right one."""
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
    def test_is_told_by_path(self, patch, answer, lost):
        """What the server adds is its own business."""
        assert dropped_paths(patch, answer) == lost


class TestASpecOfANewerCrd:
    """The CRD was upgraded first, or the operator was rolled back: fields are there that it does not know."""

    async def test_is_refused_by_the_name_of_the_field_and_no_other_is(self):
        """What the field means is not known, so nothing may be launched by half of a spec."""
        async with Rig() as rig:
            rig.create("newer", colour="red")
            rig.create("known")
            await rig.until(lambda: rig.condition("Stalled", "newer"))
            await rig.until_holds("Running", "known")

            [said] = [one for one in rig.status("newer")["conditions"] if one["type"] == "Stalled"]
            assert said["reason"] == "SpecRefused"
            assert "spec.colour" in said["message"]

    async def test_stops_nothing_that_runs(self):
        """A roll-back of the operator must not end the jobs of the night."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(colour="red")
            await rig.until(lambda: rig.condition("Stalled"))
            await rig.still(lambda: rig.pods() == {"orders-1-driver": "Running"}, for_s=1.5)
            rig.edit(colour=None)
            await rig.until_holds("Running")
