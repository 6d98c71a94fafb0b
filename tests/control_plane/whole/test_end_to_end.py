"""The whole operator with the fake API server and a real one, a kubelet in this process, and driver doubles."""

import json

from support.cluster.fake_api import Fault
from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import DRAIN_FINALIZER, OVERRIDE_ANNOTATION, VERIFY_ANNOTATION
from backfill_core.errors import EXIT_STOPPED


class TestALife:
    async def test_job_runs_from_apply_to_complete(self, rigs):
        """It is applied, launched, runs and finishes; only its status stays, and none of its objects."""
        async with rigs() as rig:
            rig.create(retainDriver="Never")
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver())
            await rig.until_phase("Succeeded")

            assert rig.condition("Complete") == ("True", "Complete")
            assert rig.status()["history"][0]["exitCode"] == 0
            await rig.until(lambda: rig.objects() == [])

    async def test_progress_is_reported(self, rigs):
        """The status contains the driver's progress, at a limited rate."""
        async with rigs(double={"rows_per_barrier": 100, "barrier_s": 0.02}) as rig:
            rig.create()
            await rig.until(lambda: rig.progress().get("percent") == 100)

            assert rig.progress()["rowsDone"] == rig.progress()["rowsTotal"] == 4000

    async def test_requested_receipt_is_reported(self, rigs):
        """Each new value of the annotation causes one receipt."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.annotate(**{VERIFY_ANNOTATION: "monday"})
            await rig.until(lambda: rig.status().get("receipt"))

            assert rig.status()["receipt"]["rows"] == 4000
            assert rig.condition("Verified") == ("True", "Equal")

    async def test_many_jobs_run_at_once(self, rigs):
        """Each has its driver, and none waits for another."""
        async with rigs() as rig:
            names = [f"job-{number}" for number in range(12)]
            for name in names:
                rig.create(name)
            for name in names:
                await rig.until_holds("Running", name)

            assert rig.oracle.most == 1

    async def test_operator_reconciles_a_full_cluster_at_its_start(self, rigs):
        """Existing objects are reconciled like later ones."""
        async with rigs(start=False) as rig:
            rig.create("early")
            rig.start()
            rig.create("late")
            await rig.until_holds("Running", "early")
            await rig.until_holds("Running", "late")


class TestControl:
    async def test_pause_and_resume_are_acknowledged(self, rigs):
        """The status shows them only after the driver has acknowledged them with a commit."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused", pause={"scope": "All"})
            await rig.until_holds("Paused")
            assert rig.double().progress.paused == "All"
            assert rig.condition("Paused") == ("True", "AsRequested")
            rig.edit(desiredState="Running")
            await rig.until_holds("Running")
            assert rig.double().progress.paused is None

    async def test_throttle_is_set_and_removed(self, rigs):
        """The limit is a number of rows a second."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(throttle={"rowsPerSecond": 500})
            await rig.until(lambda: rig.condition("Throttled") == ("True", "AsRequested"))
            assert rig.double().progress.throttle_rows_per_second == 500
            rig.edit(throttle={"rowsPerSecond": None})
            await rig.until(lambda: rig.condition("Throttled") == ("False", "NotRequested"))

    async def test_override_takes_precedence_over_the_spec(self, rigs):
        """GitOps would undo an edit of the spec."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.annotate(**{OVERRIDE_ANNOTATION: json.dumps({"desiredState": "Paused"})})
            await rig.until_holds("Paused")
            assert rig.condition("Paused") == ("True", "Override")

    async def test_invalid_override_changes_nothing(self, rigs):
        """It is reported once."""
        async with rigs() as rig:
            rig.create(annotations={OVERRIDE_ANNOTATION: "{"})
            await rig.until_holds("Running")
            await rig.until(lambda: "OverrideIgnored" in rig.events())
            await rig.still(lambda: rig.events().count("OverrideIgnored") == 1, for_s=1)

    async def test_pause_before_the_start_is_not_a_command(self, rigs):
        """The driver starts paused because of its ConfigMap."""
        async with rigs() as rig:
            rig.kubelet.held = True
            rig.create(desiredState="Paused")
            await rig.until(lambda: rig.pods())
            config = rig.store.get("configmaps", *rig.driver())

            assert "desiredState: Paused" in config["data"]["backfill.yaml"]

    async def test_driver_that_does_not_acknowledge_is_not_killed(self, rigs):
        """It is only reported."""
        async with rigs(double={"silent": True}) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused")
            await rig.until(lambda: rig.condition("ControlSynced") == ("False", "AcknowledgementPending"))
            await rig.until(lambda: len(rig.double().seen) == 1)
            await rig.still(lambda: rig.pods() == {"orders-1-driver": "Running"}, for_s=1)

    async def test_command_survives_a_restart_of_the_operator(self, rigs):
        """It is recorded before it is sent."""
        async with rigs(double={"silent": True}) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused")
            await rig.until(lambda: rig.double().seen)
            rig.kill()
            rig.double().silent = False
            rig.start()
            await rig.until_holds("Paused")

    async def test_control_survives_a_restart_of_the_driver(self, rigs):
        """The next attempt starts with it."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")
            rig.kubelet.kill(rig.driver())
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Paused"))

            assert rig.double(attempt=2).progress.paused == "History"


class TestSuspendAndDelete:
    async def test_suspended_job_has_no_pods(self, rigs):
        """Its driver is stopped at a barrier, not killed, and the next attempt continues."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(suspend=True)
            await rig.until_holds("Suspended")
            # On a busy machine the pod may be gone before the test sees how it ended.
            assert rig.status()["history"][0].get("exitCode", EXIT_STOPPED) == EXIT_STOPPED
            await rig.until(lambda: rig.pods() == {} and rig.objects() == [])
            rig.edit(suspend=False)
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            assert rig.status()["failures"] == 0

    async def test_job_created_suspended_has_no_driver(self, rigs):
        """Kueue admits it later."""
        async with rigs() as rig:
            rig.create(suspend=True)
            await rig.until_holds("Suspended")
            await rig.still(lambda: rig.objects() == [], for_s=0.5)

    async def test_deletion_waits_for_the_drain(self, rigs):
        """The driver commits its rows before its Backfill is deleted."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            assert rig.get()["metadata"]["finalizers"] == [DRAIN_FINALIZER]
            await rig.until(rig.progress)
            double = rig.double()
            rig.delete()
            await rig.until(lambda: rig.get() is None)

            assert [type(request.command).__name__ for request in double.seen] == ["Stop"]
            await rig.until(lambda: rig.objects() == [])

    async def test_deletion_during_the_launch_leaves_no_object(self, rigs):
        """Any objects may exist at that time."""
        async with rigs() as rig:
            rig.kubelet.held = True
            rig.create()
            await rig.until(lambda: rig.pods())
            rig.delete()
            await rig.until(lambda: rig.get() is None and rig.objects() == [])

    async def test_recreated_job_ignores_the_pods_of_the_first(self, rigs):
        """It has another UID, and the pods of the first Backfill do not belong to it."""
        async with rigs() as rig:
            first = rig.create()
            await rig.until_holds("Running")
            rig.delete()
            await rig.until(lambda: rig.get() is None)
            second = rig.create()
            await rig.until_holds("Running")

            owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in rig.store.objects["pods"].values()}
            assert first["metadata"]["uid"] not in owners
            assert owners == {second["metadata"]["uid"]}

    async def test_finished_job_is_deleted_after_its_time_to_live(self, rigs):
        """The limit is off by default."""
        async with rigs() as rig:
            rig.create(ttlSecondsAfterFinished=1)
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver())
            await rig.until(lambda: rig.get() is None)


class TestFailures:
    async def test_evicted_driver_has_a_successor(self, rigs):
        """The job did not cause the eviction."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.kill(rig.driver(), pod_reason="Evicted", condition="DisruptionTarget")
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            assert rig.status()["history"][0]["reason"] == "Infrastructure"

    async def test_final_failure_ends_the_job(self, rigs):
        """The driver's exit code marks it as final."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver(), exit_code=20)
            await rig.until_phase("Failed")
            await rig.still(lambda: len(rig.pods()) == 1, for_s=0.5)

    async def test_retries_are_limited(self, rigs):
        """The status contains the last reason."""
        async with rigs() as rig:
            rig.create(backoffLimit=1)
            for attempt in (1, 2):
                await rig.until(lambda attempt=attempt: rig.double(attempt=attempt) and rig.holds("Running"))
                rig.kubelet.kill(rig.driver(attempt=attempt))
            await rig.until_phase("Failed")

            assert rig.condition("Stalled") == ("True", "BackoffLimitExceeded")
            assert len(rig.status()["history"]) == 2


class TestARestart:
    async def test_restart_of_the_operator_changes_no_status(self):
        """It reconciles only after the first complete list: before that, the pod of a Backfill would seem to be missing."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(lambda: rig.progress() and rig.condition("ControlSynced") == ("True", "Acknowledged"))
            seen = []
            rig.store.listeners.append(lambda plural, _, changed: plural == "backfills" and seen.append(facts(changed)))
            before = facts(rig.get())
            rig.kill()
            rig.api.faults.append(Fault("slow", verb="list", plural="pods", seconds=1, times=99))
            rig.start()
            await rig.until(lambda: rig.operator.drivers.report((NAMESPACE, "orders"), 1) is not None)
            await rig.still(lambda: True, for_s=0.5)

            assert [status for status in seen if status != before] == []


def facts(backfill):
    """Return a status without its progress."""
    return {name: value for name, value in backfill["status"].items() if name != "progress"}
