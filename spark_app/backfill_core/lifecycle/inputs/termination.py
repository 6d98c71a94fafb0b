"""Why an attempt ended, and whether another one may succeed: from a pod that is over to one reason.

The driver's exit code counts first, because the driver knows best; then what the node says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from backfill_core import errors
from backfill_core.errors import EXIT_COMPLETE, EXIT_STOPPED, EXIT_UNEXPECTED, EXIT_USAGE, BackfillError
from backfill_core.lifecycle.observation import DriverPod

IMAGE_OR_CONFIG: Final = frozenset({
    "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull", "ImageInspectError",
    "ImagePullBackOff", "InvalidImageName", "RegistryUnavailable", "RunContainerError", "SignatureValidationFailed",
})  # fmt: skip
"""Why a container waits although waiting rarely helps."""

CANNOT_RUN: Final = frozenset({"ContainerCannotRun", "StartError"})
"""Why a container ended before its process began: the image has no such command."""

NODE_TOOK_IT: Final = frozenset({
    "ContainerStatusUnknown", "Evicted", "NodeAffinity", "NodeLost", "NodeShutdown", "Preempted", "Preempting", "Shutdown",
    "Terminated", "TerminationByKubelet", "UnexpectedAdmissionError", "Unknown",
})  # fmt: skip
"""Reasons of pods, and two of containers: their node restarted, and its kubelet does not know how they ended."""

NO_ROOM: Final = frozenset({
    "Evicted", "NodeAffinity", "NodePorts", "NodeShutdown", "Preempting", "Shutdown", "TaintToleration", "Terminated",
    "TopologyAffinityError", "UnexpectedAdmissionError",
})  # fmt: skip
"""Why a kubelet rejects a pod that the scheduler gave it: the node changed meanwhile. Another node, or a later time, may do."""

OUT_OF: Final = "OutOf"
"""Begins the same for want of a resource, whose name follows as the cluster has it: `OutOfcpu`, `OutOfnvidia.com/gpu`."""

KILLED: Final = frozenset({128 + 9, 128 + 15})
"""Exit codes of SIGKILL and SIGTERM: the operator kills no driver that may go on, so its node needed the place."""

MAY_PASS: Final = frozenset({"ErrImagePull", "ImageInspectError", "ImagePullBackOff", "RegistryUnavailable"})
"""Why a container waits for an image; the registry may only be away."""

NO_SUCH_IMAGE: Final = (
    "not found", "no such image", "manifest unknown", "name unknown", "does not exist", "unauthorized", "denied", "forbidden",
    "no basic auth", "invalid reference", "no match for platform",
)  # fmt: skip
"""Parts of a runtime's message about an image that is missing, or that needs other credentials: waiting does not help."""

UNCOUNTED: Final = frozenset({"Infrastructure", "ImageUnavailable", "Transient", "JavaDied", "CommitStalled"})
"""Reasons of ends that may have a cause outside the job."""

NOT_STARTED: Final = frozenset({"StartupTimeout", "SubmissionFailed", "ImageUnavailable"})
"""Why an attempt is stopped whose driver did not start."""


@dataclass(frozen=True, slots=True)
class Termination:
    """How an attempt ended."""

    outcome: Literal["Complete", "Planned", "Stopped", "Rejected", "Retry", "Final"]
    """`Rejected`: no driver ran, so none failed. `Retry`: another attempt may succeed. `Final`: none will."""

    reason: str
    message: str = ""
    exit_code: int | None = None
    counts: bool = True
    """Of `Retry`: does it count against `backoffLimit`? What the cluster took away does not."""


def _errors() -> tuple[dict[str, type[BackfillError]], dict[int, type[BackfillError]]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BackfillError)]
    by_code: dict[int, type[BackfillError]] = {}
    for kind in kinds:
        by_code.setdefault(kind.exit_code, kind)
    return {kind.reason: kind for kind in kinds}, by_code


BY_REASON, BY_CODE = _errors()


def may_pass(pod: DriverPod) -> bool:
    """Does the pod wait for an image that may be there later?"""
    message = pod.waiting_message.lower()
    return pod.waiting in MAY_PASS and not any(text in message for text in NO_SUCH_IMAGE)


def classify(pod: DriverPod) -> Termination:
    """Return why a pod that is over ended."""
    termination = _classify(pod)
    taken = pod.disrupted or pod.reason in NODE_TOOK_IT
    return replace(termination, counts=False) if taken and termination.outcome == "Retry" else termination


def _classify(pod: DriverPod) -> Termination:
    code, message = pod.exit_code, _message(pod)
    if code == EXIT_COMPLETE or (code is None and pod.phase == "Succeeded"):
        return _complete(pod, code)
    if code == EXIT_STOPPED:
        return Termination("Stopped", "Stopped", message or "stopped at a barrier", code)
    if code == EXIT_USAGE or pod.reason in CANNOT_RUN:
        return Termination(
            "Final", "SubmissionFailed", message or "the driver's command line or settings are wrong", code
        )
    of_driver = code is not None and 20 <= code < 80
    if pod.oom_killed and (not of_driver or code == errors.JavaDiedError.exit_code):
        # Some nodes kill Java alone; then the driver's first process lives on, and says only that Java is gone.
        hint = "raise driver.resources.limits.memory, or lower spark.driver.memory"
        words = f"OOMKilled: the driver's container ran out of memory; {hint}"
        return Termination("Retry", "Infrastructure", words, code)
    if code is not None and of_driver:
        return _by_code(pod, code, message)
    no_room = pod.reason in NO_ROOM or pod.reason.startswith(OUT_OF)
    if code is None and not pod.started and no_room:
        return Termination("Rejected", "PodRejected", message)
    if pod.init_failed and code is None and not pod.disrupted:
        return Termination("Retry", "InitContainerFailed", pod.init_failed)
    if pod.disrupted or pod.reason in NODE_TOOK_IT or code in KILLED or code is None:
        # A signal without a cause may be the kernel's for want of memory, or that of a liveness probe. Another reason of the
        # pod, such as `SysctlForbidden`, is about the pod itself.
        counts = pod.deletion_ms is None
        return Termination("Retry", "Infrastructure", message or "the driver was killed", code, counts)
    return Termination(
        "Retry", BY_CODE[EXIT_UNEXPECTED].reason, message or f"the driver ended with exit code {code}", code
    )


def _complete(pod: DriverPod, code: int | None) -> Termination:
    if pod.kind == "Run":
        return Termination("Complete", "Complete", exit_code=code)
    if pod.ending is not None and pod.ending.plan is not None:
        return Termination("Planned", "Planned", exit_code=code)
    return Termination("Retry", "Unexpected", "the planning pod exited with 0 and left no plan", code)


def _by_code(pod: DriverPod, code: int, message: str) -> Termination:
    """Trust the reason in the termination message if it fits the code: several errors share one code."""
    named = BY_REASON.get(pod.ending.reason) if pod.ending else None
    kind = named if named is not None and named.exit_code == code else BY_CODE.get(code)
    # Only a newer driver knows this code: its range says whether to try again.
    retryable = 60 <= code < 80 if kind is None else kind.retryable
    reason = "Unexpected" if kind is None else kind.reason
    counts = pod.ending is None or not pod.ending.outside
    words = message or f"the driver ended with exit code {code}"
    return Termination("Retry" if retryable else "Final", reason, words, code, counts or not retryable)


def _message(pod: DriverPod) -> str:
    # A driver that its node ends knows only that it was asked to stop.
    asked_by_node = pod.reason in NODE_TOOK_IT and (pod.exit_code == EXIT_STOPPED or pod.exit_code in KILLED)
    if pod.ending is not None and pod.ending.message and not asked_by_node:
        return f"{pod.ending.message} {pod.ending.hint}".strip()
    # A kubelet says `Error` for every exit code but 0, which explains nothing.
    reason = "" if pod.reason in ("Error", "Completed") else pod.reason
    return ": ".join(text for text in (reason, pod.message) if text) or pod.disruption
