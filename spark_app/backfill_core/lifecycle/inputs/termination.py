"""Why an attempt ended, and whether another one may do better: from a dead pod to one word.

The driver's own exit code counts before everything else, because the driver knows; then what the node says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from backfill_core import errors
from backfill_core.errors import EXIT_COMPLETE, EXIT_STOPPED, EXIT_UNEXPECTED, EXIT_USAGE, BackfillError
from backfill_core.lifecycle.observation import DriverPod

IMAGE_OR_CONFIG: Final = frozenset({
    "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull", "ImageInspectError",
    "ImagePullBackOff", "InvalidImageName", "RegistryUnavailable", "RunContainerError", "SignatureValidationFailed",
})  # fmt: skip
"""Why a container waits for something that waiting rarely brings."""

CANNOT_RUN: Final = frozenset({"ContainerCannotRun", "StartError"})
"""Why a container ended before its process began: the image has no such command."""

NODE_TOOK_IT: Final = frozenset({
    "DeadlineExceeded", "Evicted", "NodeAffinity", "NodeLost", "NodeShutdown", "Preempted", "Preempting", "Shutdown",
    "Terminated", "TerminationByKubelet", "UnexpectedAdmissionError",
})  # fmt: skip

KILLED: Final = frozenset({128 + 9, 128 + 15})
"""Exit codes of SIGKILL and SIGTERM: nobody kills a driver that may go on, so its place was taken away."""


@dataclass(frozen=True, slots=True)
class Termination:
    """How an attempt ended."""

    outcome: Literal["Complete", "Planned", "Stopped", "Retry", "Final"]
    """`Retry`: another attempt may do better. `Final`: none will."""

    reason: str
    message: str = ""
    exit_code: int | None = None


def _errors() -> tuple[dict[str, type[BackfillError]], dict[int, type[BackfillError]]]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BackfillError)]
    by_code: dict[int, type[BackfillError]] = {}
    for kind in kinds:
        by_code.setdefault(kind.exit_code, kind)
    return {kind.reason: kind for kind in kinds}, by_code


BY_REASON, BY_CODE = _errors()


def classify(pod: DriverPod) -> Termination:
    """Say why a pod that is over ended."""
    code, said = pod.exit_code, _words(pod)
    if code == EXIT_COMPLETE or (code is None and pod.phase == "Succeeded"):
        return _complete(pod, code)
    if code == EXIT_STOPPED:
        return Termination("Stopped", "Stopped", said or "stopped at a barrier", code)
    if code == EXIT_USAGE or pod.reason in CANNOT_RUN:
        return Termination("Final", "SubmissionFailed", said or "the driver's command line or settings are wrong", code)
    if code is not None and 20 <= code < 80:
        return _by_code(pod, code, said)
    if pod.oom_killed:
        hint = "raise driver.resources.limits.memory, or lower spark.driver.memory"
        return Termination("Retry", "Infrastructure", f"the driver's container ran out of memory; {hint}", code)
    if pod.disrupted or pod.reason in NODE_TOOK_IT or code in KILLED or code is None:
        return Termination("Retry", "Infrastructure", said or "the driver was killed", code)
    return Termination(
        "Retry", BY_CODE[EXIT_UNEXPECTED].reason, said or f"the driver ended with exit code {code}", code
    )


def _complete(pod: DriverPod, code: int | None) -> Termination:
    if pod.kind == "Run":
        return Termination("Complete", "Complete", exit_code=code)
    if pod.ending is not None and pod.ending.plan is not None:
        return Termination("Planned", "Planned", exit_code=code)
    return Termination("Retry", "Unexpected", "the plan's pod ended well and left no plan", code)


def _by_code(pod: DriverPod, code: int, said: str) -> Termination:
    """Trust the word of the ending when it fits the code: several errors share one."""
    named = BY_REASON.get(pod.ending.reason) if pod.ending else None
    kind = named if named is not None and named.exit_code == code else BY_CODE.get(code)
    # A code that only a newer driver knows: its range says whether to try again.
    retryable = 60 <= code < 80 if kind is None else kind.retryable
    reason = "Unexpected" if kind is None else kind.reason
    return Termination(
        "Retry" if retryable else "Final", reason, said or f"the driver ended with exit code {code}", code
    )


def _words(pod: DriverPod) -> str:
    if pod.ending is not None and pod.ending.message:
        return f"{pod.ending.message} {pod.ending.hint}".strip()
    # A kubelet says `Error` of whatever ends with another code than 0: that is no news.
    reason = "" if pod.reason in ("Error", "Completed") else pod.reason
    return ": ".join(word for word in (reason, pod.message) if word)
