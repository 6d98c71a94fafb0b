"""Classification of an attempt's end: the reason of a finished pod, and whether another attempt may succeed.

The driver's exit code has precedence, because the driver has the most information; the node's reason comes second.
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
"""Waiting reasons of a container that waiting rarely resolves."""

CANNOT_RUN: Final = frozenset({"ContainerCannotRun", "StartError"})
"""Reasons of a container that ended before its process started: the image has no such command."""

NODE_TOOK_IT: Final = frozenset({
    "ContainerStatusUnknown", "Evicted", "NodeAffinity", "NodeLost", "NodeShutdown", "Preempted", "Preempting", "Shutdown",
    "Terminated", "TerminationByKubelet", "UnexpectedAdmissionError", "Unknown",
})  # fmt: skip
"""Reasons of pods lost with their node, and two of containers: the node restarted, so its kubelet has no record of their end."""

NO_ROOM: Final = frozenset({
    "Evicted", "NodeAffinity", "NodePorts", "NodeShutdown", "Preempting", "Shutdown", "TaintToleration", "Terminated",
    "TopologyAffinityError", "UnexpectedAdmissionError",
})  # fmt: skip
"""Reasons why a kubelet rejects a pod that the scheduler assigned to it: the node changed meanwhile. Another node or time may succeed."""

OUT_OF: Final = "OutOf"
"""Prefix of a rejection for lack of a resource, followed by its name in the cluster: `OutOfcpu`, `OutOfnvidia.com/gpu`."""

KILLED: Final = frozenset({128 + 9, 128 + 15})
"""Exit codes of SIGKILL and SIGTERM: the operator kills no driver that may continue, so its node needed the room."""

MAY_PASS: Final = frozenset({"ErrImagePull", "ImageInspectError", "ImagePullBackOff", "RegistryUnavailable"})
"""Waiting reasons of a container whose image registry may only be unavailable, or refuse the pull secret, for a while."""

REFUSED: Final = (
    "401 unauthorized", "403 forbidden", "access denied", "access forbidden", "resource is denied", "denied: ", "unauthorized: ",
    "authorization failed", "may require authorization", "authentication required", "no basic auth",
)  # fmt: skip
"""Parts of a runtime's message about an answer 401 or 403 of a registry. The pull secret may be corrected at any time, and may have expired.
The message contains the name of the image too, in which no part has a space."""

NO_SUCH_IMAGE: Final = (
    "not found", "no such image", "manifest unknown", "name unknown", "does not exist", "invalid reference", "no match for platform",
)  # fmt: skip
"""Parts of a runtime's message about an image that does not exist: waiting does not help."""

UNCOUNTED: Final = frozenset({"Infrastructure", "ImageUnavailable", "Transient", "JavaDied", "CommitStalled"})
"""Reasons of ends whose cause may be outside the job."""

NOT_STARTED: Final = frozenset({"StartupTimeout", "SubmissionFailed", "ImageUnavailable"})
"""Stop reasons of an attempt whose driver did not start."""


UP_TO_DATE: Final = "UpToDate"
"""Reason of a refresh that found nothing new in the source, and wrote nothing."""


@dataclass(frozen=True, slots=True)
class Termination:
    """End of an attempt."""

    outcome: Literal["Complete", "Planned", "Stopped", "Rejected", "Retry", "Final"]
    """`Rejected`: no driver ran, so none failed. `Retry`: another attempt may succeed. `Final`: none will."""

    reason: str
    message: str = ""
    exit_code: int | None = None
    counts: bool = True
    """True if a `Retry` counts against `backoffLimit`; losses caused by the cluster do not count."""


def _errors() -> tuple[dict[str, type[BackfillError]], dict[int, type[BackfillError]]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BackfillError)]
    by_code: dict[int, type[BackfillError]] = {}
    for kind in kinds:
        by_code.setdefault(kind.exit_code, kind)
    return {kind.reason: kind for kind in kinds}, by_code


BY_REASON, BY_CODE = _errors()


def may_pass(pod: DriverPod) -> bool:
    """Return whether the pod waits for an image that may become available.

    For an answer 401, the message of containerd is that the repository does not exist or may require authorization.
    """
    message = pod.waiting_message.lower()
    refused = any(part in message for part in REFUSED)
    return pod.waiting in MAY_PASS and (refused or not any(part in message for part in NO_SUCH_IMAGE))


def classify(pod: DriverPod) -> Termination:
    """Classify the end of a finished pod."""
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
        # Some nodes kill only Java; then the driver's first process survives, and reports only that Java ended.
        hint = "raise driver.resources.limits.memory, or lower spark.driver.memory"
        message = f"OOMKilled: the driver's container ran out of memory; {hint}"
        return Termination("Retry", "Infrastructure", message, code)
    if code is not None and of_driver:
        return _by_code(pod, code, message)
    no_room = pod.reason in NO_ROOM or pod.reason.startswith(OUT_OF)
    if code is None and not pod.started and no_room:
        return Termination("Rejected", "PodRejected", message)
    if pod.init_failed and code is None and not pod.disrupted:
        return Termination("Retry", "InitContainerFailed", pod.init_failed)
    if pod.disrupted or pod.reason in NODE_TOOK_IT or code in KILLED or code is None:
        # A signal without a cause may come from the kernel (out of memory) or from a liveness probe. Another reason of the
        # pod, such as `SysctlForbidden`, is caused by the pod itself.
        counts = pod.deletion_ms is None
        return Termination("Retry", "Infrastructure", message or "the driver was killed", code, counts)
    return Termination(
        "Retry", BY_CODE[EXIT_UNEXPECTED].reason, message or f"the driver ended with exit code {code}", code
    )


def _complete(pod: DriverPod, code: int | None) -> Termination:
    if pod.kind == "Run":
        quiet = pod.ending is not None and pod.ending.reason == UP_TO_DATE
        return Termination("Complete", UP_TO_DATE if quiet else "Complete", exit_code=code)
    if pod.ending is not None and pod.ending.plan is not None:
        return Termination("Planned", "Planned", exit_code=code)
    return Termination("Retry", "Unexpected", "the planning pod exited with 0 and left no plan", code)


def _by_code(pod: DriverPod, code: int, message: str) -> Termination:
    """Use the reason in the termination message if it fits the code, because several errors share one code."""
    reported = BY_REASON.get(pod.ending.reason) if pod.ending else None
    kind = reported if reported is not None and reported.exit_code == code else BY_CODE.get(code)
    # The code may come from a newer driver: its range decides about another try.
    retryable = 60 <= code < 80 if kind is None else kind.retryable
    reason = "Unexpected" if kind is None else kind.reason
    counts = pod.ending is None or not pod.ending.outside
    message = message or f"the driver ended with exit code {code}"
    return Termination("Retry" if retryable else "Final", reason, message, code, counts or not retryable)


def _message(pod: DriverPod) -> str:
    # A driver that its node ends reports only that it received a stop request.
    stopped_by_node = pod.reason in NODE_TOOK_IT and (pod.exit_code == EXIT_STOPPED or pod.exit_code in KILLED)
    if pod.ending is not None and pod.ending.message and not stopped_by_node:
        return f"{pod.ending.message} {pod.ending.hint}".strip()
    # A kubelet reports `Error` for every exit code but 0, which explains nothing.
    reason = "" if pod.reason in ("Error", "Completed") else pod.reason
    return ": ".join(part for part in (reason, pod.message) if part) or pod.disruption
