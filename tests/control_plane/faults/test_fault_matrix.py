"""Faults of the control plane (design/operator.md, section 6): each row ends with exactly one driver and a true status.

The rig's oracle checks every change of every pod: two live drivers of one Backfill fail any of these tests.
"""

import pytest
from support.cluster.fake_api import Fault
from support.cluster.fake_store import Refusal
from support.operators.rig import NAMESPACE, Rig

from backfill_core.errors import EXIT_STOPPED
from backfill_operator.drivers.poller import UNRESPONSIVE_EVERY_S
from backfill_operator.kube.server_clock import wall_ms

TRUE_WITHIN_S = 10.0
"""Seconds after the end of a fault until the status is true."""

LAUNCH = ["configmaps", "secrets", "services", "pods"]


class TestLostAnswers:
    @pytest.mark.parametrize("what", ["lose the request", "lose the answer"])
    @pytest.mark.parametrize("plural", LAUNCH)
    async def test_create_without_an_answer_leaves_one_driver(self, what, plural):
        """The parameter's name tells whether the create was executed."""
        async with Rig() as rig:
            rig.api.faults.append(Fault(what, verb="create", plural=plural))
            rig.create()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)

            assert rig.has_one_driver()
            assert rig.attempt() == 1

    async def test_dry_run_without_an_answer_is_repeated(self):
        """It is sent after a pod was refused, ten seconds later, and creates no object in either case."""
        refusals = ["exceeded quota: pods, requested: 1, used: 10, limited: 10"]

        def quota(plural, _namespace, _one):
            if plural == "pods" and refusals:
                raise Refusal(403, "Forbidden", refusals.pop())

        async with Rig() as rig:
            rig.store.admission.append(quota)
            rig.api.faults.append(Fault("lose the answer", verb="create", plural="pods", dry_run=True))
            rig.create(executor={"instances": 0})
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S + 15)

            assert any(request.dry_run for request in rig.api.requests)
            assert rig.has_one_driver()

    @pytest.mark.parametrize("what", ["lose the request", "lose the answer"])
    @pytest.mark.parametrize("after", range(4))
    async def test_status_write_without_an_answer_is_repeated(self, what, after):
        """It is recorded or not, and no dependent action was executed."""
        async with Rig() as rig:
            rig.api.faults.append(Fault(what, verb="patch", plural="backfills", after=after))
            rig.create()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)

            assert rig.has_one_driver()
            assert rig.attempt() == 1


class TestConflicts:
    async def test_another_writer_is_faster_with_the_status(self):
        """The decision is dropped, and the next reconcile starts from the current state."""

        def edit(_request):
            rig.annotate(edited="yes")

        async with Rig() as rig:
            rig.api.faults.append(Fault("action", verb="patch", plural="backfills", action=edit, times=3))
            rig.create()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)
            assert rig.has_one_driver()

    async def test_unexplained_conflict_is_retried(self):
        """A 409 is an answer."""
        async with Rig() as rig:
            fault = Fault("answer", verb="patch", plural="backfills", status=409, reason="Conflict", times=3)
            rig.api.faults.append(fault)
            rig.create()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)
            assert rig.has_one_driver()

    async def test_two_operators_at_once_leave_one_driver(self):
        """The writes of a second operator without the lease are conflicts, and its driver has the same name."""
        async with Rig() as rig:
            rig.start()
            for number in range(5):
                rig.create(f"job-{number}")
            for number in range(5):
                await rig.until_holds("Running", f"job-{number}", within_s=TRUE_WITHIN_S)

            assert len(rig.pods()) == 5


class TestDeafWatches:
    async def test_list_repairs_a_silent_watch(self):
        """No event arrives, but every change is found."""
        async with Rig() as rig:
            rig.create("before")
            await rig.until_holds("Running", "before")
            rig.api.silent = True
            rig.create("during")
            await rig.until_holds("Running", "during", within_s=TRUE_WITHIN_S)
            rig.delete("before")
            await rig.until(lambda: rig.get("before") is None, TRUE_WITHIN_S)

    async def test_watch_restarts_after_an_expired_version(self):
        """After a 410, the watch starts again from a list."""
        async with Rig(relist_min_seconds=60, relist_max_seconds=60) as rig:
            rig.create("before")
            await rig.until_holds("Running", "before")
            for number in range(3):
                rig.api.forget()
                rig.create(f"after-{number}")
                await rig.until_holds("Running", f"after-{number}", within_s=TRUE_WITHIN_S)

    async def test_list_restarts_after_an_expired_version(self):
        """It starts from the first page."""
        async with Rig(page_size=10) as rig:
            rig.api.faults.append(Fault("answer", verb="list", status=410, reason="Expired", after=2, times=3))
            for number in range(15):
                rig.create(f"job-{number}", suspend=True)
            for number in range(15):
                await rig.until_holds("Suspended", f"job-{number}", within_s=TRUE_WITHIN_S)

    async def test_list_finds_a_deletion_that_no_watch_delivers(self):
        """A cached object that is on no page no longer exists, and its driver is not polled any more."""
        async with Rig() as rig:
            rig.create(deletionPolicy="Immediate")
            await rig.until_holds("Running")
            rig.api.silent = True
            rig.delete()
            await rig.until(lambda: len(rig.operator.cache) == 0, TRUE_WITHIN_S)
            await rig.until(lambda: rig.objects() == [], TRUE_WITHIN_S)


class TestDyingDrivers:
    @pytest.mark.parametrize(
        ("what", "reason"),
        [
            ({"pod_reason": "Evicted", "condition": "DisruptionTarget"}, "Infrastructure"),
            ({"reason": "OOMKilled"}, "Infrastructure"),
            ({"exit_code": 143}, "Infrastructure"),
            ({"exit_code": 1}, "Unexpected"),
        ],
        ids=["evicted", "out of memory", "terminated", "crashed"],
    )
    async def test_dead_driver_has_one_successor(self, what, reason):
        """The history contains the reason."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.kill(rig.driver(), **what)
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"), TRUE_WITHIN_S)

            assert rig.status()["history"][0]["reason"] == reason

    async def test_driver_on_a_lost_node_is_given_up(self):
        """Its pod is gone too, without a reason: the attempt is given up after some time and a live read."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.vanish(rig.driver())
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"), TRUE_WITHIN_S)

            assert rig.status()["history"][0]["reason"] == "Infrastructure"

    async def test_live_read_finds_a_pod_that_the_cache_lost(self):
        """The live read finds the pod, and no driver is launched."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            pod = rig.store.get("pods", *rig.driver())
            rig.operator.cache.evict_pod(rig.driver(), pod["metadata"]["uid"])
            await rig.still(lambda: rig.attempt() == 1, for_s=7)
            assert rig.has_one_driver()

    async def test_driver_that_a_user_deletes_has_a_successor(self):
        """It stops at a barrier, and has a successor."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.store.delete("pods", *rig.driver())
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"), TRUE_WITHIN_S)
            assert rig.status()["history"][0].get("exitCode") in (EXIT_STOPPED, None)

    async def test_restarted_driver_is_another_driver(self):
        """Reports of the first driver do not apply to the second one."""
        async with Rig(double={"rows_per_barrier": 1}) as rig:
            rig.create()
            await rig.until(lambda: rig.progress().get("rowsDone", 0) >= 1000)
            rig.kubelet.kill(rig.driver())
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"), TRUE_WITHIN_S)
            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")
            assert rig.double(attempt=2).progress.paused == "History"


class TestControlThatGoesWrong:
    async def test_lost_acknowledgement_is_read_again(self):
        """The driver applied the command once."""

        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            double = rig.double()
            double.unresponsive = True
            rig.edit(desiredState="Paused")
            await rig.until(lambda: (rig.status().get("control") or {}).get("pending"))
            double.unresponsive = False
            await rig.until_holds("Paused", within_s=TRUE_WITHIN_S)

            assert [event.revision for event in double.seen] == [1]

    async def test_command_for_an_old_attempt_reaches_no_driver(self):
        """It ended with its driver; the new driver starts with the current spec."""
        async with Rig(double={"silent": True}) as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            rig.edit(desiredState="Paused")
            await rig.until(lambda: rig.double().seen)
            rig.kubelet.kill(rig.driver())
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Paused"), TRUE_WITHIN_S)

            assert rig.double(attempt=2).seen == []

    async def test_silent_driver_is_reported_and_not_killed(self):
        """It may be collecting garbage."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            rig.double().unresponsive = True
            # The rules give a silent driver fifteen seconds.
            await rig.until(lambda: rig.condition("DriverReady") == ("False", "DriverUnreachable"), within_s=30)
            assert rig.pods() == {"orders-1-driver": "Running"}
            assert "did not answer within 1 s" in rig.message("DriverReady")
            rig.double().unresponsive = False
            # It was polled less and less often.
            await rig.until_holds("Running", within_s=UNRESPONSIVE_EVERY_S + TRUE_WITHIN_S)


class TestServersInTrouble:
    @pytest.mark.parametrize(
        ("status", "reason", "retry_after"),
        [(429, "TooManyRequests", 1), (500, "InternalError", None), (503, "ServiceUnavailable", None)],
    )
    async def test_error_storm_costs_its_duration(self, status, reason, retry_after):
        """Half a minute of errors costs half a minute."""
        async with Rig() as rig:
            storm = Fault("answer", status=status, reason=reason, retry_after=retry_after, dry_run=None, times=40)
            rig.create("before")
            await rig.until_holds("Running", "before")
            rig.api.faults.append(storm)
            rig.create("during")
            await rig.until(lambda: storm.times <= 0, within_s=40)
            await rig.until_holds("Running", "during", within_s=TRUE_WITHIN_S)

            assert sorted(rig.pods()) == ["before-1-driver", "during-1-driver"]

    async def test_slow_server_leaves_one_driver(self):
        """Late answers count as missing, and their results are found."""
        async with Rig(request_timeout_seconds=0.5) as rig:
            rig.api.faults.append(Fault("slow", verb="create", plural="pods", seconds=2))
            rig.create()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)
            assert rig.has_one_driver()


class TestPeople:
    async def test_deletion_during_the_launch_leaves_no_object(self):
        """The deletion comes at any write of the launch."""
        for write in range(7):
            async with Rig() as rig:
                rig.api.faults.append(
                    Fault("action", writes=True, dry_run=None, after=write, action=lambda _, rig=rig: rig.delete())
                )
                rig.create()
                await rig.until(lambda rig=rig: rig.get() is None and rig.objects() == [], TRUE_WITHIN_S)

    async def test_edit_during_the_launch_reaches_the_driver(self):
        """The driver starts with the current values, or receives a command."""
        async with Rig() as rig:

            def pause(_request):
                rig.edit(desiredState="Paused")

            rig.api.faults.append(Fault("lose the answer", verb="create", plural="secrets", action=pause))
            rig.create()
            await rig.until_holds("Paused", within_s=TRUE_WITHIN_S)

            assert rig.double().progress.paused == "History"
            assert rig.has_one_driver()

    async def test_deleted_children_are_recreated(self):
        """A running driver still receives commands. Objects that executors need are created again, and a lost Secret is reported."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            for plural in ("configmaps", "secrets", "services"):
                rig.store.delete(plural, *rig.driver())
            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")
            await rig.until(lambda: [kind for kind, _ in rig.objects()] == ["configmaps", "pods", "services"])
            await rig.until(lambda: {"ObjectsMissing", "SecretMissing"} <= set(rig.events()))
            assert rig.store.get("services", *rig.driver())["metadata"]["ownerReferences"][0]["uid"] == rig.uid()
            rig.restart()
            await rig.until(lambda: "has no Secret" in str(rig.status().get("conditions")), within_s=30)

    async def test_children_of_an_ended_attempt_are_not_recreated(self):
        """The check that finds them missing may be older than their end: its write is a conflict, and no object is created."""

        def quicker(_request):
            # While the operator checks the three objects, another writer is faster each time.
            rig.annotate(changed=str(len(rig.api.requests)))

        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.api.faults.append(Fault("action", verb="get", plural="services", action=quicker, times=99))
            made = [(request.verb, request.plural) for request in rig.api.requests].count(("create", "services"))
            rig.store.delete("services", *rig.driver())
            await rig.until(lambda: rig.api.faults[0].times < 97)
            calls = [(request.verb, request.plural) for request in rig.api.requests]
            assert calls.count(("create", "services")) == made
            rig.api.faults.clear()
            await rig.until(rig.has_one_driver)

    async def test_driver_with_edited_labels_has_no_second_one(self):
        """No watch delivers the pod any more. It is read by name, found to be the driver, and has no second one."""
        async with Rig(relist_min_seconds=60, relist_max_seconds=60) as rig:
            rig.create()
            await rig.until_holds("Running")
            self.unlabel(rig)
            await rig.until(lambda: rig.condition("DriverReady") == ("Unknown", "DriverMissing"))
            await rig.until_holds("Running")
            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")

            assert rig.attempt() == 1
            assert rig.has_one_driver()

    async def test_unlabelled_driver_that_every_list_omits_has_no_second_one(self):
        """It seems to be gone repeatedly, but for every status there is no second driver."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            self.unlabel(rig)
            await rig.until(lambda: rig.condition("DriverReady") == ("Unknown", "DriverMissing"))
            await rig.still(lambda: rig.attempt() == 1 and len(rig.pods()) == 1, for_s=8)

    @staticmethod
    def unlabel(rig):
        labels = dict.fromkeys(rig.store.get("pods", *rig.driver())["metadata"]["labels"])
        rig.store.patch("pods", *rig.driver(), {"metadata": {"labels": labels}})

    async def test_recreated_job_runs_again(self):
        """The state belongs to the target, and the object is another one."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver())
            await rig.until_phase("Succeeded")
            rig.delete()
            await rig.until(lambda: rig.get() is None)
            rig.create()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)

    async def test_unreadable_status_is_reported_and_left_unchanged(self):
        """It may record an attempt, so no driver is launched."""
        async with Rig(start=False) as rig:
            rig.create()
            rig.store.patch("backfills", NAMESPACE, "orders", {"status": {"attempts": "many"}}, subresource="status")
            rig.start()
            await rig.until(lambda: "StatusUnreadable" in rig.events())
            assert rig.objects() == []


class TestClocks:
    @pytest.mark.parametrize("skew_h", [-24, 24])
    async def test_operator_with_a_wrong_clock_keeps_the_driver(self, skew_h):
        """The clock is a day off in either direction; there is still one driver, which is not given up."""
        async with Rig(start=False) as rig:
            rig.options = {"own_ms": lambda: wall_ms() + skew_h * 3_600_000}
            rig.start()
            rig.create()
            await rig.until_holds("Running", within_s=TRUE_WITHIN_S)
            await rig.still(lambda: rig.attempt() == 1, for_s=1)
