"""The whole operator against the fake API server and a real one, a kubelet of this process and drivers that are doubles."""

import json

from support.cluster.fake_api import Fault
from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import DRAIN_FINALIZER, OVERRIDE_ANNOTATION, VERIFY_ANNOTATION
from backfill_core.errors import EXIT_STOPPED


class TestALife:
    async def test_from_apply_to_complete(self, rigs):
        """Applied, launched, running, done; what is left of it is its status and nothing of its objects."""
        async with rigs() as rig:
            rig.create(retainDriver="Never")
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver())
            await rig.until_phase("Succeeded")

            assert rig.condition("Complete") == ("True", "Complete")
            assert rig.status()["history"][0]["exitCode"] == 0
            await rig.until(lambda: rig.objects() == [])

    async def test_progress_comes_back(self, rigs):
        """What the driver says is in the status, at a walking pace."""
        async with rigs(double={"rows_per_barrier": 100, "barrier_s": 0.02}) as rig:
            rig.create()
            await rig.until(lambda: rig.progress().get("percent") == 100)

            assert rig.progress()["rowsDone"] == rig.progress()["rowsTotal"] == 4000

    async def test_a_receipt_that_was_asked_for_comes_back(self, rigs):
        """Each new text of the annotation is one receipt."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.annotate(**{VERIFY_ANNOTATION: "monday"})
            await rig.until(lambda: rig.status().get("receipt"))

            assert rig.status()["receipt"]["rows"] == 4000
            assert rig.condition("Verified") == ("True", "Equal")

    async def test_many_at_once(self, rigs):
        """Each has its driver; none waits for another."""
        async with rigs() as rig:
            names = [f"job-{number}" for number in range(12)]
            for name in names:
                rig.create(name)
            for name in names:
                await rig.until_holds("Running", name)

            assert rig.oracle.most == 1

    async def test_the_first_look_at_a_cluster_that_is_full(self, rigs):
        """What is there when the operator comes is looked at like what comes later."""
        async with rigs(start=False) as rig:
            rig.create("early")
            rig.start()
            rig.create("late")
            await rig.until_holds("Running", "early")
            await rig.until_holds("Running", "late")


class TestControl:
    async def test_pause_and_resume(self, rigs):
        """Acknowledged by the driver after a seal, and only then said to be so."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused", pause={"scope": "All"})
            await rig.until_holds("Paused", within_s=2)
            assert rig.double().progress.paused == "All"
            assert rig.condition("Paused") == ("True", "AsRequested")
            rig.edit(desiredState="Running")
            await rig.until_holds("Running", within_s=2)
            assert rig.double().progress.paused is None

    async def test_a_throttle(self, rigs):
        """A number of rows a second, and none again."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(throttle={"rowsPerSecond": 500})
            await rig.until(lambda: rig.condition("Throttled") == ("True", "AsRequested"))
            assert rig.double().progress.throttle_rows_per_second == 500
            rig.edit(throttle={"rowsPerSecond": None})
            await rig.until(lambda: rig.condition("Throttled") == ("False", "NotRequested"))

    async def test_an_override_wins_over_the_spec(self, rigs):
        """GitOps would undo an edit of the spec; an emergency is no edit."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.annotate(**{OVERRIDE_ANNOTATION: json.dumps({"desiredState": "Paused"})})
            await rig.until_holds("Paused")
            assert rig.condition("Paused") == ("True", "Override")

    async def test_an_override_that_cannot_be_read_changes_nothing(self, rigs):
        """And is said, once."""
        async with rigs() as rig:
            rig.create(annotations={OVERRIDE_ANNOTATION: "{"})
            await rig.until_holds("Running")
            await rig.until(lambda: "OverrideIgnored" in rig.events())
            await rig.still(lambda: rig.events().count("OverrideIgnored") == 1, for_s=1)

    async def test_a_pause_before_the_start_is_no_command(self, rigs):
        """The driver begins paused: its ConfigMap says so."""
        async with rigs() as rig:
            rig.kubelet.held = True
            rig.create(desiredState="Paused")
            await rig.until(lambda: rig.pods())
            config = rig.store.get("configmaps", *rig.driver())

            assert "desiredState: Paused" in config["data"]["backfill.yaml"]

    async def test_a_driver_that_does_not_acknowledge_is_not_killed(self, rigs):
        """It is only said."""
        async with rigs(double={"silent": True}) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused")
            await rig.until(lambda: rig.condition("ControlSynced") == ("False", "AcknowledgementPending"))
            await rig.until(lambda: len(rig.double().seen) == 1)
            await rig.still(lambda: rig.pods() == {"orders-1-driver": "Running"}, for_s=1)

    async def test_a_command_survives_a_restart_of_the_operator(self, rigs):
        """It is on record before it is sent."""
        async with rigs(double={"silent": True}) as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused")
            await rig.until(lambda: rig.double().seen)
            rig.kill()
            rig.double().silent = False
            rig.start()
            await rig.until_holds("Paused")

    async def test_a_control_survives_a_restart_of_the_driver(self, rigs):
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
    async def test_suspended_means_that_the_pods_are_gone(self, rigs):
        """Stopped at a barrier, not killed; and the next attempt goes on."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.edit(suspend=True)
            await rig.until_holds("Suspended")
            # On a busy machine the pod may be gone before anybody saw how it ended.
            assert rig.status()["history"][0].get("exitCode", EXIT_STOPPED) == EXIT_STOPPED
            await rig.until(lambda: rig.pods() == {} and rig.objects() == [])
            rig.edit(suspend=False)
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            assert rig.status()["failures"] == 0

    async def test_one_that_is_born_suspended_has_no_driver(self, rigs):
        """Kueue admits it later."""
        async with rigs() as rig:
            rig.create(suspend=True)
            await rig.until_holds("Suspended")
            await rig.still(lambda: rig.objects() == [], for_s=0.5)

    async def test_a_deletion_waits_for_the_drain(self, rigs):
        """The driver seals what it has before its Backfill goes."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            assert rig.get()["metadata"]["finalizers"] == [DRAIN_FINALIZER]
            await rig.until(rig.progress)
            double = rig.double()
            rig.delete()
            await rig.until(lambda: rig.get() is None)

            assert [type(one.command).__name__ for one in double.seen] == ["Stop"]
            await rig.until(lambda: rig.objects() == [])

    async def test_a_deletion_during_the_launch(self, rigs):
        """Nothing is left, whatever was made."""
        async with rigs() as rig:
            rig.kubelet.held = True
            rig.create()
            await rig.until(lambda: rig.pods())
            rig.delete()
            await rig.until(lambda: rig.get() is None and rig.objects() == [])

    async def test_deleted_and_made_again_at_once(self, rigs):
        """Another UID, another life; the pods of the first are no pods of the second."""
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

    async def test_a_time_to_live(self, rigs):
        """Off by default; where it is set, the object goes."""
        async with rigs() as rig:
            rig.create(ttlSecondsAfterFinished=1)
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver())
            await rig.until(lambda: rig.get() is None)


class TestFailures:
    async def test_an_evicted_driver_has_a_successor(self, rigs):
        """Through no fault of the job."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.kill(rig.driver(), pod_reason="Evicted", condition="DisruptionTarget")
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

            assert rig.status()["history"][0]["reason"] == "Infrastructure"

    async def test_a_failure_that_no_retry_repairs_is_the_end(self, rigs):
        """The driver's exit code says so."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver(), exit_code=20)
            await rig.until_phase("Failed")
            await rig.still(lambda: len(rig.pods()) == 1, for_s=0.5)

    async def test_retries_are_used_up(self, rigs):
        """And the last reason is told."""
        async with rigs() as rig:
            rig.create(backoffLimit=1)
            for attempt in (1, 2):
                await rig.until(lambda attempt=attempt: rig.double(attempt=attempt) and rig.holds("Running"))
                rig.kubelet.kill(rig.driver(attempt=attempt))
            await rig.until_phase("Failed")

            assert rig.condition("Stalled") == ("True", "BackoffLimitExceeded")
            assert len(rig.status()["history"]) == 2


class TestARestart:
    async def test_of_the_operator_is_not_seen(self):
        """It looks at nothing before it has listed everything: a Backfill without its pod would seem to have lost it."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(lambda: rig.progress() and rig.condition("ControlSynced") == ("True", "Acknowledged"))
            seen = []
            rig.store.listeners.append(lambda plural, _, one: plural == "backfills" and seen.append(facts(one)))
            before = facts(rig.get())
            rig.kill()
            rig.api.faults.append(Fault("slow", verb="list", plural="pods", seconds=1, times=99))
            rig.start()
            await rig.until(lambda: rig.operator.drivers.report((NAMESPACE, "orders"), 1) is not None)
            await rig.still(lambda: True, for_s=0.5)

            assert [one for one in seen if one != before] == []


def facts(backfill):
    """Return everything of a status but how far it is."""
    return {name: value for name, value in backfill["status"].items() if name != "progress"}
