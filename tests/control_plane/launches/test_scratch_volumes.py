"""A spec with a volume for temporary files, from the launch to the message of a scheduler."""

from support.operators.rig import Rig

UNBOUND = {
    "phase": "Pending",
    "conditions": [
        {
            "type": "PodScheduled",
            "status": "False",
            "message": "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims",
        }
    ],
}
SCRATCH = {"size": "20Gi", "storageClassName": "fastt"}


class TestALaunch:
    async def test_status_names_a_storage_class_that_does_not_exist(self):
        """The scheduler names the claim only, which the user never wrote."""
        async with Rig() as rig:
            rig.create(scratch=SCRATCH)
            await rig.until_holds("Running")
            rig.executor(1, UNBOUND)
            await rig.until(lambda: rig.condition("ExecutorsWaiting") == ("True", "ExecutorsWaiting"))

            assert "spec.scratch.storageClassName 'fastt' must exist" in str(rig.status()["conditions"])
            assert rig.status().get("failures", 0) == 0

    async def test_volume_that_is_not_allowed_starts_no_driver(self):
        """The status names the field and the administrator's setting."""
        async with Rig(allowed_volumes=("emptyDir",)) as rig:
            rig.create(scratch=SCRATCH)
            await rig.until(lambda: "spec.scratch.storageClassName" in str(rig.status().get("conditions")))

            assert "limits.allowedVolumes" in str(rig.status()["conditions"])
            assert not rig.pods()
