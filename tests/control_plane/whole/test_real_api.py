"""The operator on a real API server, with a kubelet and drivers of this process; skipped where there is no server."""

import pytest

from backfill_api.names import DRAIN_FINALIZER


class TestALifeOnARealServer:
    async def test_from_apply_to_complete(self, real):
        """Every object is accepted by the server that will have to."""
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

    async def test_retry_suspend_and_drain(self, real):
        """The same decisions, with a server that validates every status."""
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

    async def test_a_pod_that_the_server_refuses(self, real):
        """With the words of a real one."""
        async with real(allowed_priority_classes=("no-such-class",)) as rig:
            rig.create(driver={"template": {"spec": {"priorityClassName": "no-such-class"}}})
            await rig.until(lambda: (rig.condition("Stalled") or "?")[0] == "True")
            stalled = rig.message("Stalled")
            assert "no-such-class" in stalled
            await rig.until(lambda: rig.objects() == [])

    async def test_an_executor_that_the_server_would_refuse(self, real):
        """Before there is a driver, which would ask for it for ever."""
        async with real() as rig:
            rig.create(executor={"template": {"metadata": {"labels": {"user.backfill.dev/team": "d" * 64}}}})
            await rig.until(lambda: (rig.condition("Stalled") or "?")[0] == "True")
            assert rig.condition("Stalled") == ("True", "SpecRefused")
            stalled = rig.message("Stalled")
            assert stalled.startswith("spec.executor: ")
            assert "must be no more than 63" in stalled
            assert rig.objects() == []

    async def test_a_service_account_that_is_not_there(self, real):
        """Waits for a person, says for whom, and leaves nothing behind."""
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
    async def test_an_operator_that_dies(self, real, write):
        """Killed after so many of its calls; the next one goes on."""
        async with real(start=False) as rig:
            killed = []

            def count(call):
                if call.verb in ("create", "patch", "delete"):
                    killed.append(call)
                    if len(killed) == write + 1:
                        # In the operator's own thread: it stops before it can do anything with the answer.
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
