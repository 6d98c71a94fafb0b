"""A pod's state is read from its driver's container, even if webhooks add other containers after or before it."""

import pytest

from backfill_core.lifecycle.inputs.termination import classify
from backfill_operator.informer.parse import pod_of

RUNNING = {
    "name": "driver",
    "ready": True,
    "started": True,
    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
}
ENDED = {
    "name": "shipper",
    "ready": False,
    "state": {"terminated": {"exitCode": 1, "reason": "Error", "message": "no route"}},
}
WAITING = {
    "name": "istio-proxy",
    "ready": False,
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
}
UNREADY = {"name": "istio-proxy", "ready": False, "state": {"running": {}}}
NOT_READY = {"type": "Ready", "status": "False"}


def pod(*containers, conditions=(NOT_READY,), **status):
    """Return a pod as the API server returns it."""
    return {
        "metadata": {"name": "orders-1-driver", "namespace": "shop", "uid": "1"},
        "status": {"phase": "Running", "containerStatuses": list(containers), "conditions": list(conditions)} | status,
    }


class TestADriverBesideOthers:
    @pytest.mark.parametrize(
        ("other", "why"),
        [
            (ENDED, "container shipper is not ready: exit code 1, no route"),
            (WAITING, "container istio-proxy is not ready: CrashLoopBackOff: back-off"),
            (UNREADY, "container istio-proxy is not ready: it runs"),
        ],
    )
    @pytest.mark.parametrize("first", [True, False])
    def test_driver_is_ready_regardless_of_the_pod(self, other, why, first):
        """The pod's condition Ready is False while any container is not ready (fault C1)."""
        seen = pod_of(pod(other, RUNNING) if first else pod(RUNNING, other))

        assert (seen.ready, seen.started, seen.over, seen.unready) == (True, True, False, why)

    def test_driver_without_a_status_does_not_use_another_containers(self):
        """The end of a sidecar is not the end of the driver."""
        seen = pod_of(pod(ENDED))

        assert (seen.ready, seen.started, seen.over, seen.exit_code) == (False, False, False, None)

    def test_ready_pod_with_an_unready_driver_is_not_ready(self):
        """Any controller may set a readiness gate."""
        assert not pod_of(pod(RUNNING | {"ready": False}, conditions=({"type": "Ready", "status": "True"},))).ready


class TestANativeSidecar:
    """An init container with `restartPolicy: Always`, as service meshes add one: it runs until the driver has ended."""

    def test_sidecar_that_is_never_ready_is_named(self):
        """It keeps the pod unready, and only `containerStatuses` was read."""
        seen = pod_of(with_proxy(RUNNING, started=True, ready=False, state={"running": {}}))

        assert (seen.ready, seen.held, seen.unready) == (True, "", "container istio-proxy is not ready: it runs")

    @pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (31, "Failed")])
    def test_driver_has_ended_while_its_sidecar_runs(self, code, phase):
        """The kubelet ends it after the driver, within the grace period of the pod."""
        ended = {"name": "driver", "ready": False, "state": {"terminated": {"exitCode": code}}}
        seen = pod_of(with_proxy(ended, started=True, ready=True, state={"running": {}}))

        assert (seen.phase, seen.over, seen.exit_code, seen.lingering) == (phase, True, code, "")

    def test_killed_sidecar_is_no_failed_init_container(self):
        """The driver's status is lost with its node, and the proxy ended by a signal."""
        raw = with_proxy(phase="Failed", state={"terminated": {"exitCode": 137}})
        ended = classify(pod_of(raw | {"status": raw["status"] | {"reason": "NodeLost", "message": "no heartbeat"}}))

        assert (ended.reason, ended.message) == ("Infrastructure", "NodeLost: no heartbeat")


def with_proxy(*containers, phase="Running", **status):
    """Return a pod with a native sidecar of this status."""
    raw = pod(*containers, phase=phase, initContainerStatuses=[{"name": "istio-proxy"} | status])
    return raw | {"spec": {"initContainers": [{"name": "istio-proxy", "restartPolicy": "Always"}]}}


class TestHowAPodEnds:
    def test_failed_init_container_is_named(self):
        """The message has its exit code and message, and the command that shows its log (fault C7)."""
        init = {
            "name": "fetch",
            "state": {"terminated": {"exitCode": 3, "reason": "Error", "message": "no such bucket\n"}},
        }
        waits = {"name": "driver", "ready": False, "state": {"waiting": {"reason": "PodInitializing"}}}
        ended = classify(pod_of(pod(waits, phase="Failed", initContainerStatuses=[init])))

        assert ended.reason == "InitContainerFailed"
        assert (
            ended.message
            == "init container fetch failed: exit code 3, no such bucket; kubectl logs -c fetch shows its log"
        )

    def test_disruption_is_quoted(self):
        """PodGC and the eviction API give a reason."""
        why = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node not found",
        }
        ended = classify(pod_of(pod(phase="Failed", conditions=(why,))))

        assert (ended.reason, ended.message, ended.counts) == (
            "Infrastructure",
            "DeletionByPodGC: PodGC: node not found",
            False,
        )

    def test_scheduling_time_is_read(self):
        """Until then, a pod waits for a node."""
        since = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}

        assert pod_of(pod(conditions=(since,))).scheduled_ms == 1_767_225_605_000
