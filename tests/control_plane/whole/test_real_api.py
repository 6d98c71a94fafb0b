"""The operator on a real API server, with a kubelet and drivers in this process; skipped without a server."""

import pytest

from backfill_api.names import DRAIN_FINALIZER


class TestALifeOnARealServer:
    async def test_job_runs_from_apply_to_complete(self, real):
        """The real server accepts every object."""
        async with real() as rig:
            rig.create(retainDriver="Never")
            await rig.until_holds("Running")
            await rig.until(rig.progress)
            assert rig.get()["metadata"]["finalizers"] == [DRAIN_FINALIZER]
            rig.edit(desiredState="Paused", pause={"scope": "All"})
            await rig.until_holds("Paused")
            rig.edit(desiredState="Running", throttle={"rowsPerSecond": 100})
            await rig.until_holds("Running")
            assert rig.condition("Throttled") == ("True", "AsRequested")
            rig.kubelet.finish(rig.driver())
            await rig.until_phase("Succeeded")
            await rig.until(lambda: rig.objects() == [])
            await rig.until(lambda: "Complete" in rig.events())

    async def test_retry_suspend_and_drain_work(self, real):
        """The decisions are the same, with a server that validates every status."""
        async with real() as rig:
            rig.create()
            await rig.until_holds("Running")
            rig.kubelet.kill(rig.driver())
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
            rig.edit(suspend=True)
            await rig.until_holds("Suspended")
            rig.edit(suspend=False)
            await rig.until(lambda: rig.attempt() == 3 and rig.holds("Running"))
            rig.delete()
            await rig.until(lambda: rig.get() is None and rig.objects() == [])

    async def test_pod_that_the_server_refuses_is_reported(self, real):
        """The message is the real server's."""
        async with real(allowed_priority_classes=("no-such-class",)) as rig:
            rig.create(driver={"template": {"spec": {"priorityClassName": "no-such-class"}}})
            await rig.until(lambda: (rig.condition("Stalled") or "?")[0] == "True")
            stalled = rig.message("Stalled")
            assert "no-such-class" in stalled
            await rig.until(lambda: rig.objects() == [])

    async def test_executor_that_the_server_refuses_is_reported(self, real):
        """The refusal comes before the driver, which would request the executor for ever."""
        async with real() as rig:
            rig.create(executor={"template": {"metadata": {"labels": {"user.backfill.dev/team": "d" * 64}}}})
            await rig.until(lambda: (rig.condition("Stalled") or "?")[0] == "True")
            assert rig.condition("Stalled") == ("True", "SpecRefused")
            stalled = rig.message("Stalled")
            assert stalled.startswith("spec.executor: ")
            assert "must be no more than 63" in stalled
            assert rig.objects() == []

    async def test_missing_service_account_is_reported(self, real):
        """The Backfill waits for a user, names the account, and leaves no objects."""
        async with real(allowed_service_accounts=("no-such-account",)) as rig:
            rig.create(driver={"serviceAccountName": "no-such-account"})
            await rig.until(lambda: rig.condition("Stalled") or rig.phase() == "Running")
            if rig.phase() == "Running":
                pytest.skip("this server admits pods whose service account is missing")
            assert rig.condition("Stalled") == ("True", "LaunchRefused")
            stalled = rig.message("Stalled")
            assert 'serviceaccount "no-such-account" not found' in stalled
            await rig.until(lambda: rig.objects() == [])

    @pytest.mark.parametrize("write", range(0, 8, 2))
    async def test_operator_that_dies_has_a_successor(self, real, write):
        """It is killed after a number of its calls, and the next one continues."""
        async with real(start=False) as rig:
            killed = []

            def count(call):
                if call.verb in ("create", "patch", "delete"):
                    killed.append(call)
                    if len(killed) == write + 1:
                        # In the operator's own thread, so that it stops before it can use the answer.
                        rig.running.halt()

            rig.options = {"observe": count}
            rig.start()
            rig.create()
            await rig.until(lambda: not rig.running.alive)
            rig.options = {}
            rig.start()
            await rig.until_holds("Running")
            assert rig.attempt() == 1
            assert len(rig.pods()) == 1
