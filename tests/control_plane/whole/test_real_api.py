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

    async def test_backfills_start_in_their_order(self, real):
        """The server stores the fields. A dependency that fails, or waits for its dependent, is named."""
        async with real(max_drivers=1) as rig:
            for name, fields in (
                ("last", {"dependsOn": [{"name": "first", "condition": "Finished"}], "priority": 9}),
                ("loop", {"dependsOn": [{"name": "loop"}]}),
                ("first", {"backoffLimit": 0}),
            ):
                rig.create(name, target={"type": "Delta", "delta": {"path": f"/data/{name}"}}, **fields)
            await rig.until_holds("Running", "first")
            await rig.until(lambda: rig.condition("Reconciling", "last") == ("True", "WaitingForDependency"))
            assert "Backfill first is not Finished yet" in rig.message("Ready", "last")
            await rig.until(lambda: rig.condition("Stalled", "loop") == ("True", "DependencyCycle"))
            rig.kubelet.finish(rig.driver("first"), exit_code=20)
            await rig.until_holds("Running", "last")

    async def test_defaults_of_the_administrator_are_accepted(self, real):
        """Every kind of field that the chart's values `jobs` set, on driver and executors."""
        pod_spec = {
            "nodeSelector": {"pool": "batch"}, "tolerations": [{"key": "pool", "operator": "Exists"}], "hostUsers": False,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
            "schedulerName": "yunikorn", "dnsPolicy": "Default", "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
            "imagePullSecrets": [{"name": "pull"}], "volumes": [{"name": "ca", "configMap": {"name": "ca", "optional": True}}],
        }  # fmt: skip

        def template(name):
            mounted = [{"name": "ca", "mountPath": "/etc/ssl/company"}]
            variables = [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}]
            return {"spec": pod_spec | {"containers": [{"name": name, "env": variables, "volumeMounts": mounted}]}}

        templates = {f"{name}_template": template(name) for name in ("driver", "executor")}
        async with real(labels={"team": "data"}, **templates) as rig:
            rig.create()
            await rig.until_holds("Running")
            [pod] = rig.pods()
            stored = rig.store.get("pods", *rig.driver())

        assert stored["metadata"]["labels"]["team"] == "data"
        assert {name: stored["spec"][name] for name in ("hostUsers", "schedulerName", "dnsPolicy")} == {
            "hostUsers": False, "schedulerName": "yunikorn", "dnsPolicy": "Default",
        }  # fmt: skip
        assert pod == rig.driver()[1]

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
