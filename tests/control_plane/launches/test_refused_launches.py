"""Launches that the API server, the kubelet or an existing name prevents are reported and retried, and leave no objects."""

import json
from collections import Counter

import pytest
from support.cluster.fake_api import Fault
from support.cluster.fake_store import Refusal
from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import API_VERSION, KIND, ROLE_LABEL

ONCE = {"request_timeout_seconds": 60}
"""No request is repeated because the machine is busy."""


class TestWhatCannotBeLaunched:
    async def test_pod_that_the_server_refuses_is_reported(self):
        """The server's message is shown, no objects stay, and there is no second try until the spec changes."""

        def refuse(plural, _namespace, manifest):
            if plural == "pods" and "gpu" in json.dumps(manifest):
                raise Refusal(422, "Invalid", "spec.containers[0].resources: no gpu here")

        async with Rig() as rig:
            rig.store.admission.append(refuse)
            rig.create(driver={"template": {"metadata": {"annotations": {"wants": "gpu"}}}})
            await rig.until(lambda: rig.condition("Stalled") == ("True", "SpecRefused"))

            stalled = rig.message("Stalled")
            assert "no gpu here" in stalled
            assert rig.objects() == []
            rig.edit(driver={"template": {"metadata": {"annotations": {"wants": None}}}})
            await rig.until_holds("Running")

    async def test_executor_that_the_server_refuses_is_reported(self):
        """Spark creates executors, and would retry for ever: the job would count as running and do nothing."""

        def refuse(plural, _namespace, manifest):
            if plural == "pods" and manifest["metadata"]["labels"].get("user.backfill.dev/team", "").startswith("-"):
                raise Refusal(422, "Invalid", 'metadata.labels: Invalid value: "-data"')

        async with Rig() as rig:
            rig.store.admission.append(refuse)
            rig.create(executor={"template": {"metadata": {"labels": {"user.backfill.dev/team": "-data"}}}})
            await rig.until(lambda: rig.condition("Stalled") == ("True", "SpecRefused"))

            stalled = rig.message("Stalled")
            assert 'spec.executor: metadata.labels: Invalid value: "-data"' in stalled
            assert rig.objects() == []
            rig.edit(executor={"template": {"metadata": {"labels": {"user.backfill.dev/team": "data"}}}})
            await rig.until_holds("Running")
            assert list(rig.pods()) == [rig.driver()[1]]

    async def test_executors_of_a_refused_size_are_reported(self):
        """A LimitRange accepts the driver and no executor, even with the default size."""

        def limit(plural, _namespace, manifest):
            if plural == "pods" and manifest["metadata"]["labels"][ROLE_LABEL] == "executor":
                raise Refusal(403, "Forbidden", "maximum memory usage per Container is 1Gi, but limit is 2Gi")

        async with Rig() as rig:
            rig.store.admission.append(limit)
            rig.create()
            await rig.until(lambda: rig.condition("Stalled") == ("True", "SpecRefused"))
            stalled = rig.message("Stalled")
            assert stalled.startswith("spec.executor: maximum memory usage")
            rig.edit(executor={"instances": 0})
            await rig.until_holds("Running")

    async def test_equal_executors_are_checked_once(self):
        """A thousand launches a minute must not cause a thousand requests. The number of executors makes no difference."""
        async with Rig(**ONCE) as rig:
            for number in range(5):
                target = {"type": "Delta", "delta": {"path": f"/data/{number}"}}
                rig.create(f"job-{number}", executor={"instances": number + 1}, target=target)
                await rig.until_holds("Running", f"job-{number}")
            large = {"limits": {"memory": "3Gi"}}
            rig.create(
                "other", executor={"resources": large}, target={"type": "Delta", "delta": {"path": "/data/other"}}
            )
            await rig.until_holds("Running", "other")
            assert sum(request.dry_run for request in rig.api.requests) == 2

    async def test_full_quota_of_executors_does_not_prevent_the_driver(self):
        """It continues with the executors that it gets."""

        def quota(plural, _namespace, manifest):
            if plural == "pods" and manifest["metadata"]["labels"][ROLE_LABEL] == "executor":
                raise Refusal(403, "Forbidden", "exceeded quota: pods, requested: 1, used: 1, limited: 1")

        async with Rig() as rig:
            rig.store.admission.append(quota)
            rig.create(executor={"template": {"metadata": {"labels": {"user.backfill.dev/team": "data"}}}})
            await rig.until_holds("Running")

    async def test_relative_path_is_refused_before_the_launch(self):
        """No object is created, and an edit corrects it."""
        async with Rig() as rig:
            rig.create(source={"type": "Delta", "delta": {"path": "./lake/orders", "key": ["id"]}})
            await rig.until(lambda: rig.condition("Stalled") == ("True", "SpecRefused"))

            stalled = rig.message("Stalled")
            assert "spec.source.delta.path: is relative" in stalled
            assert '(got "./lake/orders")' in stalled
            assert rig.objects() == []
            rig.edit(source={"delta": {"path": "/lake/orders"}})
            await rig.until_holds("Running")

    async def test_spec_that_the_operator_refuses_is_reported(self):
        """The CRD may be older than the operator, and accept the spec."""
        async with Rig() as rig:
            rig.create(colour="red")
            await rig.until(lambda: rig.condition("Stalled") == ("True", "SpecRefused"))
            assert rig.objects() == []
            rig.edit(colour=None)
            await rig.until_holds("Running")

    async def test_template_that_the_operator_refuses_is_reported(self):
        """It is refused like a refusal of the server, before any object is created."""
        async with Rig() as rig:
            rig.create(driver={"resources": {"limits": {"memory": "much"}}})
            await rig.until(lambda: rig.condition("Stalled") == ("True", "SpecRefused"))
            assert rig.objects() == []

    async def test_template_that_the_administrator_does_not_allow_is_reported(self):
        """No object is created; the status names the field and the setting, and with the setting the job runs."""
        lake = {"name": "lake", "hostPath": {"path": "/srv/lake"}}
        async with Rig() as rig:
            rig.create(driver={"template": {"spec": {"volumes": [lake]}}})
            await rig.until(lambda: rig.condition("Stalled") == ("True", "SpecRefused"))

            stalled = rig.message("Stalled")
            assert "spec.driver.template.spec.volumes[0].hostPath.path" in stalled
            assert "BACKFILL_OPERATOR_ALLOWED_HOST_PATHS" in stalled
            assert rig.objects() == []
        async with Rig(allowed_host_paths=("/srv/lake",)) as rig:
            rig.create(driver={"template": {"spec": {"volumes": [lake]}}})
            await rig.until_holds("Running")

    async def test_corrected_policy_is_noticed(self):
        """The operator notices it within seconds, without an edit (fault C8)."""

        def deny(plural, _namespace, _one):
            if plural == "pods" and denies:
                raise Refusal(
                    403, "Forbidden", 'admission webhook "policy.example.com" denied the request: no team label'
                )

        denies = [True]
        async with Rig() as rig:
            rig.store.admission.append(deny)
            rig.create()
            await rig.until(lambda: rig.condition("Stalled") == ("True", "SpecRefused"))
            assert "no team label; the next try is at 2" in rig.message("Stalled")
            denies.clear()
            await rig.until_holds("Running", within_s=8)

    async def test_full_quota_keeps_the_job_waiting(self):
        """A full quota is not a user's mistake, and is temporary."""

        def quota(plural, _namespace, _one):
            if plural == "pods" and full:
                raise Refusal(403, "Forbidden", "exceeded quota: pods, requested: 1, used: 10, limited: 10")

        full = [True]
        async with Rig() as rig:
            rig.store.admission.append(quota)
            rig.create()
            await rig.until(lambda: rig.condition("Reconciling") == ("True", "QuotaExceeded"))
            await rig.until(lambda: rig.objects() == [])
            full.clear()
            await rig.until_holds("Running", within_s=15)

    async def test_full_quota_costs_one_request_for_each_try(self):
        """A waiting Backfill creates and deletes no objects after the first refusal."""

        def quota(plural, _namespace, _one):
            if plural == "pods":
                raise Refusal(403, "Forbidden", "exceeded quota: pods, requested: 1, used: 10, limited: 10")

        async with Rig(**ONCE) as rig:
            rig.store.admission.append(quota)
            rig.create(executor={"instances": 0})
            await rig.until(lambda: any(request.dry_run for request in rig.api.requests))

            made = Counter(
                request.plural for request in rig.api.requests if request.verb == "create" and not request.dry_run
            )
            assert [made[plural] for plural in ("configmaps", "secrets", "services", "pods")] == [1, 1, 1, 1]

    async def test_quota_that_its_own_pod_fills_keeps_the_pod(self):
        """The answer to its creation was lost, and the next request is refused: the pod runs, and keeps its objects."""

        def quota(plural, _namespace, _one):
            if plural == "pods" and rig.pods():
                raise Refusal(403, "Forbidden", "exceeded quota: pods, requested: 1, used: 1, limited: 1")

        async with Rig() as rig:
            rig.store.admission.append(quota)
            rig.api.faults.append(Fault("lose the answer", verb="create", plural="pods"))
            rig.create()
            await rig.until_holds("Running")

            assert rig.has_one_driver()

    async def test_missing_volume_is_reported(self):
        """The pod shows ContainerCreating for ever; the message refers to its events."""
        creating = {
            "phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "driver", "state": {"waiting": {"reason": "ContainerCreating"}}}],
        }  # fmt: skip

        def waits(plural, kind, pod):
            # At once, because the attempt is given up after two seconds.
            if (plural, kind) == ("pods", "ADDED"):
                rig.kubelet.status((NAMESPACE, pod["metadata"]["name"]), creating)

        async with Rig() as rig:
            rig.kubelet.held = True
            rig.store.listeners.append(waits)
            rig.create(startupTimeoutSeconds=2, drainTimeoutSeconds=3)
            await rig.until(lambda: "a volume, Secret or ConfigMap" in str(rig.status().get("conditions")))

    async def test_existing_pod_of_another_owner_is_not_changed(self):
        """The launch is refused with a collision."""
        async with Rig() as rig:
            pod = {"metadata": {"name": "orders-1-driver"}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
            foreign = rig.store.create("pods", NAMESPACE, pod)
            rig.create()
            await rig.until(lambda: rig.condition("Stalled") == ("True", "NameCollision"))
            await rig.until(lambda: [kind for kind, _ in rig.objects()] == ["pods"])
            await rig.still(lambda: rig.store.get("pods", *rig.driver()) == foreign, for_s=0.5)

    async def test_existing_secret_of_another_owner_is_not_changed(self):
        """It is not read, changed or deleted."""
        async with Rig() as rig:
            foreign = rig.store.create("secrets", NAMESPACE, {"metadata": {"name": "orders-1-driver"}, "data": {}})
            rig.create()
            await rig.until(lambda: rig.condition("Stalled") == ("True", "NameCollision"))
            assert rig.pods() == {}
            rig.delete()
            await rig.until(lambda: rig.get() is None)
            assert rig.store.get("secrets", *rig.driver()) == foreign

    @pytest.mark.parametrize("plural", ["configmaps", "secrets", "services"])
    async def test_objects_of_an_earlier_backfill_of_the_name_are_replaced(self, plural):
        """`kubectl replace --force` is faster than the garbage collector: the objects are replaced at once."""
        async with Rig(start=False) as rig:
            owner = {"apiVersion": API_VERSION, "kind": KIND, "name": "orders", "uid": "of-before", "controller": True}
            rig.store.garbage_collector = False
            old = rig.store.create(
                plural, NAMESPACE, {"metadata": {"name": rig.driver()[1], "ownerReferences": [owner]}}
            )
            rig.create()
            rig.start()
            await rig.until_holds("Running")

            assert rig.store.get(plural, *rig.driver())["metadata"]["uid"] != old["metadata"]["uid"]
            assert rig.has_one_driver()

    async def test_objects_that_cannot_be_deleted_yet_are_retried_with_a_delay(self):
        """A finalizer of another controller blocks the deletion for seconds or hours."""
        async with Rig(start=False) as rig:
            owner = {"apiVersion": API_VERSION, "kind": KIND, "name": "orders", "uid": "of-before", "controller": True}
            rig.store.garbage_collector = False
            metadata = {"name": rig.driver()[1], "ownerReferences": [owner], "finalizers": ["other.dev/held"]}
            rig.store.create("services", NAMESPACE, {"metadata": metadata})
            rig.create()
            rig.start()
            await rig.until(lambda: rig.condition("Reconciling") == ("True", "LaunchRefused"))
            earlier = len(rig.api.requests)
            await rig.still(lambda: rig.condition("Reconciling") == ("True", "LaunchRefused"), for_s=2.0)

            assert (
                len(
                    [
                        request
                        for request in rig.api.requests[earlier:]
                        if request.verb == "create" and request.plural == "services"
                    ]
                )
                <= 1
            )
            rig.store.patch("services", NAMESPACE, rig.driver()[1], {"metadata": {"finalizers": []}})
            await rig.until_holds("Running")
            assert rig.has_one_driver()

    async def test_account_that_is_created_later_is_waited_for(self):
        """One `kubectl apply` creates both in any order."""

        def account(plural, _namespace, _one):
            if plural == "pods" and missing:
                raise Refusal(403, "Forbidden", 'error looking up service account shop/x: serviceaccount "x" not found')

        missing = [True]
        async with Rig() as rig:
            rig.store.admission.append(account)
            rig.create()
            await rig.until(lambda: rig.condition("Stalled") == ("True", "LaunchRefused"))
            missing.clear()
            await rig.until_holds("Running", within_s=8)

    @pytest.mark.parametrize("other", [{"kind": "Job"}, {"name": "bills"}, {"apiVersion": "other.dev/v1"}])
    async def test_objects_of_another_owner_are_kept(self, other):
        """Only objects that name a Backfill which no longer exists may be replaced."""
        async with Rig(start=False) as rig:
            owner = {"apiVersion": API_VERSION, "kind": KIND, "name": "orders", "uid": "of-before"} | other
            rig.store.garbage_collector = False
            metadata = {"name": rig.driver()[1], "ownerReferences": [owner]}
            old = rig.store.create("configmaps", NAMESPACE, {"metadata": metadata})
            rig.create()
            rig.start()
            await rig.until(lambda: rig.condition("Stalled") == ("True", "NameCollision"))
            assert rig.store.get("configmaps", *rig.driver()) == old

    async def test_name_that_is_too_long_for_a_pod_is_shortened(self):
        """The shortened name is still unique."""
        name = "a" * 200
        async with Rig() as rig:
            rig.create(name)
            await rig.until_holds("Running", name)
            assert all(len(name) <= 63 for _, name in rig.objects())
