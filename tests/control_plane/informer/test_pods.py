"""What is read of a pod is read of its driver's container: webhooks put others beside it, and before it."""

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
    """Return a pod as the API server has it."""
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
    def test_driver_is_ready_whatever_the_pod_is(self, other, why, first):
        """The pod's condition Ready is False while any container is not (fault C1)."""
        seen = pod_of(pod(other, RUNNING) if first else pod(RUNNING, other))

        assert (seen.ready, seen.started, seen.over, seen.unready) == (True, True, False, why)

    def test_driver_without_a_status_has_that_of_no_other_container(self):
        """A sidecar that has ended is no driver that has."""
        seen = pod_of(pod(ENDED))

        assert (seen.ready, seen.started, seen.over, seen.exit_code) == (False, False, False, None)

    def test_ready_pod_whose_driver_is_not_is_not_ready(self):
        """A readiness gate may be set by anyone."""
        assert not pod_of(pod(RUNNING | {"ready": False}, conditions=({"type": "Ready", "status": "True"},))).ready


class TestHowAPodEnds:
    def test_failed_init_container_is_named(self):
        """With its exit code and message, and where its log is (fault C7)."""
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
        """PodGC and the eviction API say why."""
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

    def test_start_of_the_node_is_read(self):
        """Until then a pod waits for room."""
        since = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}

        assert pod_of(pod(conditions=(since,))).scheduled_ms == 1_767_225_605_000
