"""The page about the operator's lifecycle: diagrams from calls of `decide`, tables from the API."""

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from backfill_api.names import DRAIN_FINALIZER
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.conditions import CONDITION_TYPES, REASONS
from backfill_api.status.ending import Ending
from backfill_api.status.plan import Plan
from backfill_api.status.progress import Progress
from backfill_api.status.status import BackfillStatus
from backfill_api.wire import Ack
from backfill_core.lifecycle.actions import RefetchPods
from backfill_core.lifecycle.decide import NEXT, Decision, decide, first_step
from backfill_core.lifecycle.inputs.context import classify
from backfill_core.lifecycle.inputs.launched_of import executors_of, launched_of
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import DriverPod, DriverReport, Observation, WaitingExecutors
from backfill_core.lifecycle.steps.step import Ended

ROOT = Path(__file__).parent.parent
LIFECYCLE_FILE = ROOT / "docs" / "operator-lifecycle.md"
T0 = 1_800_000_000_000
STEP_MS = 1_000_000
"""Longer than every wait of the specs below."""

TABLES = {
    "source": {"type": "Delta", "delta": {"path": "/a", "key": ["id"]}},
    "target": {"type": "Delta", "delta": {"path": "/b"}},
}
SPECS = [
    BackfillSpec.model_validate(TABLES | {"startupTimeoutSeconds": 600, "backoffLimit": 1} | fields)
    for fields in (
        {},
        {"desiredState": "Paused"},
        {"suspend": True},
        {"approval": "Manual"},
        {"approval": "Manual", "spark": {"image": "localhost/other:1"}},
    )
]
PLAN = Plan(
    rows=1, bytes=1, files=1, splits=1, version=1, estimated_seconds=1, estimated_seconds_low=1,
    estimated_seconds_high=1, change_feed=True,
)  # fmt: skip

Edges = dict[tuple[str, str], set[str]]


@cache
def decisions() -> tuple[tuple[Observation, int, Decision], ...]:
    """Explore all decisions from a new Backfill; return each observation, its time and the decision."""
    seen: list[tuple[Observation, int, Decision]] = []
    todo, known = [(BackfillStatus(), T0)], set()
    while todo:
        status, now_ms = todo.pop()
        for observation in _observations(status, now_ms):
            decision = decide(observation, now_ms)
            seen.append((observation, now_ms, decision))
            if any(isinstance(action, RefetchPods) for action in decision.actions):
                continue
            if observation.deletion_ms is None and (key := _key(decision.status)) not in known:
                known.add(key)
                todo.append((decision.status, now_ms + STEP_MS))
    return tuple(seen)


def explore() -> tuple[Edges, Edges]:
    """Return the transitions of phases with their reasons, and the transitions of steps with their outcomes."""
    edges: Edges = defaultdict(set)
    steps: Edges = defaultdict(set)
    for observation, now_ms, decision in decisions():
        _follow(observation, now_ms, steps)
        if any(isinstance(action, RefetchPods) for action in decision.actions):
            continue
        before, after = observation.status, decision.status
        ready = next(condition for condition in after.conditions if condition.type == "Ready")
        if after.phase != before.phase:
            edges[before.phase or "", after.phase or ""].add(ready.reason)
    return edges, steps


def _follow(observation: Observation, now_ms: int, steps: Edges) -> None:
    """Add the steps that one decision takes."""
    context = classify(observation, now_ms)
    step = first_step(context)
    while isinstance(answer := step(context), Ended):
        following = NEXT[answer.outcome]
        steps[step.__name__, following.__name__].add(answer.outcome)
        step, context = following, answer.context


def _key(status: BackfillStatus) -> tuple[Any, ...]:
    """Return the values that distinguish two statuses in the exploration, without numbers that only grow."""
    attempt, control = status.attempt, status.control
    return (
        status.phase, min(status.failures, 2), status.plan_of, len(status.history) > 0,
        attempt and (attempt.kind, attempt.state, attempt.ready_time is not None, attempt.stop and attempt.stop.reason),
        control and (control.paused, tuple(command.command.type for command in control.pending)),
        tuple((condition.type, condition.status, condition.reason) for condition in status.conditions if condition.type == "Ready"),
    )  # fmt: skip


def _observations(status: BackfillStatus, now_ms: int) -> Iterator[Observation]:
    for generation, spec in enumerate(SPECS, start=1):
        for pods, report in _drivers(status, now_ms):
            seen = Observation(
                "shop", "orders", "uid", generation, spec, status, pods=pods, report=report, live=True,
                finalizers=(DRAIN_FINALIZER,),
            )  # fmt: skip
            yield seen
            if pods and not pods[0].over and spec is SPECS[0]:
                yield replace(seen, deletion_ms=now_ms)


def _drivers(status: BackfillStatus, now_ms: int) -> Iterator[tuple[tuple[DriverPod, ...], DriverReport | None]]:
    """Yield the possible observations of the current attempt's driver."""
    yield (), None
    attempt = status.attempt
    if attempt is None or attempt.state == "Ended":
        return
    number, control = attempt.number, status.control
    pod = DriverPod(
        driver_name("orders", number), f"pod-{number}", "uid", number, attempt.kind, created_ms=now_ms,
        launched_of=launched_of(SPECS[0], attempt.kind), executors_of=executors_of(SPECS[0]),
    )  # fmt: skip
    yield (pod,), None
    yield (replace(pod, waiting="ErrImagePull", created_ms=now_ms - STEP_MS),), None
    yield (replace(pod, created_ms=now_ms - STEP_MS),), None
    pending = control.pending if control else ()
    revision = max((command.revision for command in pending), default=control.acked_revision if control else 0)
    progress = Progress(table_version=1, revision=revision, paused=control.paused if control else None)
    acks = tuple(Ack(attempt=number, epoch=1, revision=command.revision, outcome="Applied") for command in pending)
    ready = replace(pod, phase="Running", ready=True)
    yield (ready,), DriverReport(number, now_ms, progress)
    yield (ready,), DriverReport(number, now_ms, progress, acks=acks)
    waiting = WaitingExecutors("ImagePullBackOff", "no such image", running=0)
    yield (replace(ready, started=True, executors=waiting),), DriverReport(number, now_ms, progress)
    yield (ready,), DriverReport(number, now_ms, progress, unreachable_since_ms=now_ms - STEP_MS)
    plan = Ending(outcome="Planned", plan=PLAN) if attempt.kind == "Plan" else None
    for code in (0, 10, 40, 60, 137):
        phase: Any = "Succeeded" if code == 0 else "Failed"
        yield (replace(pod, phase=phase, exit_code=code, ending=plan),), None


# ------------------------------------------------------------------ the page
INTRODUCTION = """\
<!-- Generated by build-tools/lifecycle_page.py (`make docs`); do not edit. -->
# The life of a Backfill on a cluster

The operator observes, decides, acts and writes one status. The deciding part is a pure function
([`backfill_core.lifecycle`](../spark_app/backfill_core/lifecycle/decide.py)); the diagrams below are generated from it.

## Phases

Phases are for users; tools read the conditions. A deleted object is `Terminating` from any phase with a live driver.
An arrow names the reasons (of `Ready`) for a change of the phase.

"""

STEPS = """\
## Steps

One decision takes one step, or several. A step decides one situation; when that ends, it returns an outcome. An arrow names
the outcome after which another step decides. Every other result is final: a status and the actions.
"""

PROSE = """
## Guarantees

- **One driver.** The status records an attempt before its pod is created, with the object's resourceVersion. The pod has one
  possible name. A later attempt is planned only after the pods were read from the API server. If all of this fails, the
  newer attempt's fence in the target rejects the older one's next commit.
- **All state is recorded.** The status contains all state: if an operator dies at any point, the next one reads it.
- **A lost pod is searched for** (5 s in the cache, then at the API server) before it counts as an infrastructure failure. A pod
  of a lost node may hang in termination: a minute after its grace period, it is removed by force.

## Attempts and failures

`status.attempts` counts all attempts, and `status.failures` the failures for `backoffLimit`. Suspensions, restarts and plans are
not failures. An attempt that was ready for an hour resets the count. The delay doubles from `backoff.initialSeconds` to
`backoff.maxSeconds`, minus up to a fifth that depends on the object's UID. So jobs that failed together do not restart
together. A failed Backfill resumes when its spec is edited or a restart is requested; a complete one never resumes.

A pod may wait for an image, a Secret, a volume or a node with capacity. If the spec is edited before its driver has run, a pod of the
new spec replaces it at once, and `SpecChanged` is not a failure. Fields that the operator reads itself (`throttle`, `suspend`,
`backoffLimit`, times) replace no pod, nor does the width of the job: `maxInFlight`, `splitTargetSeconds`, `chunkRows` and `executor.instances`.
An edit never ends a running driver: it is sent as a command, or takes effect with the next attempt.

The operator finds executors that do not start by a list of waiting executor pods, one for all Backfills every half minute. `ExecutorsWaiting` has the reason and
message of one of them. An edit of `spark` or `executor`, except `executor.instances`, then ends the attempt at a barrier, as `SpecChanged` and without a failure. That requires an executor that waits
for an image, a Secret or a ConfigMap, or one that waits for a node while none runs.

A quota or a policy may reject executors after the launch. Then no pod shows the cause, and Spark requests the pods again and again. The driver counts its executors: if
fewer than requested run for a minute, it warns (`ExecutorsMissing`), and `ExecutorsWaiting` has the count. The job stays `Ready`: it continues with the others.

## Commands

The operator compares `desiredState`, `pause`, `throttle`, the width and the override annotation with the driver's report. Every difference
becomes a command with a separate revision. The operator writes it to `status.control` before it sends it, and sends it again each
second until it is acknowledged after a commit. A change of pause and limit at the same time has two revisions. A command that is
not acknowledged within 30 s, or three commits if they take longer, sets `ControlSynced` to `AcknowledgementTimeout`; the driver
continues. If a driver of an earlier version rejects a command, the reason is `CommandRefused`, and other commands are still sent. A
new attempt starts with the current controls.

| annotation | effect |
|---|---|
| `backfill.dev/override: '{"desiredState":"Paused"}'` | overrides the spec: `desiredState`, `pause`, `throttle`, `maxInFlight`, `splitTargetSeconds`, `chunkRows`, `executors`, `suspend`; an invalid one is ignored as a whole, and the previous one stays; the condition `OverrideIgnored` reports it |
| `backfill.dev/verify-requested: <any new value>` | one receipt |
| `backfill.dev/restart-requested: <any new value>` | the attempt ends at a barrier, the next one resumes; a failed Backfill resumes too |
| `backfill.dev/refresh-requested: <any new value>` | a complete Backfill runs again from its last position; `status.refresh` has start, end and reason. During a run the refresh follows its end. `spec.refresh.schedule` starts the same at its times, and `status.refreshTimes` has the next and the last one |
| `backfill.dev/switch-requested: <any new value>` | one [switch-over](switch.md#on-a-cluster), once the target has caught up; `status.switch` has its state. Undo and end: `switch-undo-requested`, `switch-complete-requested` |
| `backfill.dev/repair-requested: <any new value>` | one [repair](repair.md#on-a-cluster); `status.repair` has its result |
| `backfill.dev/changed-by: '{"by":"anna","note":"incident 4711","time":"…"}'` | commands that the same request causes carry author and reason in `status.control.acks`; each new text counts once |
| `backfill.dev/watched-until: <time>` | progress is written every two seconds until then, at most a minute ahead |

## Procedures

A switch-over, its undo, its end and a repair are procedures. The job's driver stops at a barrier (`Switching`, `Repairing`), and an attempt of its own performs
the procedure (`status.attempt.procedure`). If it dies, the next attempt continues it. A refused procedure is no failure: an ordinary attempt follows
([ADR 0047](adr/0047-procedures-as-attempts.md)). An attempt that copies back and whose Java, storage or commit hangs is replaced like a job's driver (`JavaSilent`, `CommitStalled`).

## Plan and approval

With `approval: Manual` the first attempt is a plan: a pod that estimates the job (`status.plan`) and ends. The Backfill
waits in `AwaitingApproval` until `spec.approved` is true; `activeDeadlineSeconds` starts then. With `approval: Automatic`
there is no plan.

A plan has a name, `status.planOf`: a hash of the limit and of the part of the spec that determines a driver. When the spec is edited before a driver ran,
its plan gets another name: a new plan is made (`PlanOutdated`), and the old plan and its approval are no longer valid. `spec.approved` applies to the plan that existed
when it was set (`status.approvedOf`). In a manifest that is edited later, it approves no other plan until it is false and true again, or
`spec.approvedPlan` names the new plan. An approval by name applies only to that plan: use it if several users, or a repository, edit the spec. If
`approved` is set before a plan exists, the operator does not wait. After a driver has run, there is no plan: the target records its job.
"""


def render() -> str:
    """Return the page."""
    phases, steps = explore()
    lines = ["```mermaid", "stateDiagram-v2"]
    for (before, after), reasons in sorted(phases.items()):
        if after != "Terminating":
            lines.append(f"    {before or '[*]'} --> {after}: {', '.join(sorted(reasons))}")
    lines += ["    Succeeded --> [*]", "```", "", STEPS, "```mermaid", "stateDiagram-v2"]
    for (before, after), outcomes in sorted(steps.items()):
        lines.append(f"    {before} --> {after}: {', '.join(sorted(outcomes))}")
    lines += ["```", ""]
    return (
        INTRODUCTION
        + "\n".join(lines)
        + PROSE
        + _table("Conditions", "type", CONDITION_TYPES)
        + _table("Reasons", "reason", REASONS)
    )


def _table(title: str, name: str, meanings: dict[str, str]) -> str:
    rows = "".join(f"| `{value}` | {meaning} |\n" for value, meaning in meanings.items())
    return f"\n## {title}\n\n| {name} | meaning |\n|---|---|\n{rows}"


if __name__ == "__main__":
    sys.stdout.write(render())
