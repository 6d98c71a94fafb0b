"""The page about GitOps, with its table of statuses from `decide` and the result that each tool must show for each."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import lifecycle_page
import yaml

from backfill_api.names import API_VERSION, KIND
from backfill_api.status.progress import Progress
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.actions import RefetchPods
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.observation import DriverReport, Observation, SpecRefused

ROOT = Path(__file__).parent.parent
GITOPS_FILE = ROOT / "docs" / "gitops.md"
STATUSES_FILE = ROOT / "docs" / "statuses.yaml"

SHOWN = ("Ready", "Reconciling", "Stalled", "Complete", "Failed", "Paused", "Suspended", "AwaitingApproval", "CaughtUp")
"""Conditions on which the result of a tool may depend; tools ignore the other conditions."""

ASKED = {"Running": ("Current", "Healthy"), "Paused": ("Current", "Suspended"), "Suspended": ("Current", "Suspended"),
         "Succeeded": ("Current", "Healthy")}  # fmt: skip
"""Results of kstatus and Argo CD for a phase in which the desired state is reached."""


@dataclass(frozen=True)
class Row:
    """A status that tools distinguish, and the result that each tool must show."""

    name: str
    conditions: tuple[str, ...]
    kstatus: str
    argo_cd: str
    copied: str
    backfill: dict[str, Any]


@cache
def rows() -> tuple[Row, ...]:
    """Return every distinguishable status of the lifecycle once."""
    made = []
    by_look: dict[tuple[Any, ...], tuple[Observation, BackfillStatus]] = {}
    for observation, after in statuses():
        key = (after.phase or "", observation.deletion_ms is not None, after.observed_generation == observation.generation,
               conditions(after))  # fmt: skip
        by_look.setdefault(key, (observation, after))
    for key in sorted(by_look):
        observation, after = by_look[key]
        phase, deleted, seen, shown = key
        kstatus, argo_cd, copied = words(phase, shown, deleted=deleted, seen=seen)
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": observation.name,
                "namespace": observation.namespace,
                "generation": observation.generation,
            }
            | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}),
            "spec": {},
            "status": {
                "observedGeneration": after.observed_generation,
                "conditions": [
                    {"type": condition.type, "status": condition.status, "reason": condition.reason}
                    for condition in after.conditions
                    if condition.type in SHOWN
                ],
            },
        }
        name = f"{phase}, deleted" if deleted else phase if seen else f"({phase or 'new'})"
        made.append(Row(name, shown, kstatus, argo_cd, copied, document))
    return tuple(made)


def statuses() -> Iterator[tuple[Observation, BackfillStatus]]:
    """Yield each observation with its status: the whole exploration, a refused spec, an edited spec, and a caught-up target."""
    new = Observation("shop", "orders", "uid", 1, lifecycle_page.SPECS[0])
    yield new, new.status
    refused = replace(new, spec=SpecRefused(("spec.source: is required",)))
    yield refused, decide(refused, lifecycle_page.T0).status
    for observation, now_ms, decision in lifecycle_page.decisions():
        if any(isinstance(action, RefetchPods) for action in decision.actions):
            continue
        after = decision.status
        yield observation, after
        if after.phase == "Running" and observation.report is not None:
            yield replace(observation, generation=after.observed_generation + 1), after
            report = observation.report
            progress = (report.progress or Progress(table_version=1)).model_copy(update={"caught_up": True})
            caught_up = replace(observation, report=DriverReport(report.attempt, now_ms, progress, acks=report.acks))
            yield caught_up, decide(caught_up, now_ms).status


def conditions(status: BackfillStatus) -> tuple[str, ...]:
    """Return the conditions that are true, and `Ready` with its status."""
    shown = {condition.type: condition.status for condition in status.conditions if condition.type in SHOWN}
    return tuple(f"{name}={shown[name]}" if name == "Ready" else name for name in SHOWN
                 if name in shown and (shown[name] == "True" or name == "Ready"))  # fmt: skip


def words(phase: str, shown: tuple[str, ...], *, deleted: bool, seen: bool) -> tuple[str, str, str]:
    """Return the results that kstatus, Argo CD and Flux's expressions for copied rows must show.

    Argo CD itself shows Progressing for an object in deletion, without a script.
    """
    if deleted:
        return "Terminating", "Progressing", "InProgress"
    if not seen:
        return "InProgress", "Progressing", "InProgress"
    if "Stalled" in shown:
        return "Failed", "Degraded", "Failed"
    copied = "Current" if {"Complete", "CaughtUp"} & {*shown} else "InProgress"
    if "Ready=True" in shown:
        return *ASKED[phase], copied
    return "InProgress", "Suspended" if phase == "AwaitingApproval" else "Progressing", copied


def render_statuses() -> str:
    """Return the table as a file for tests of such tools."""
    head = "# Generated by build-tools/gitops_page.py (`make docs`): every status that tools distinguish, with their results.\n"
    table = [
        {
            "phase": row.name,
            "kstatus": row.kstatus,
            "argoCd": row.argo_cd,
            "copied": row.copied,
            "backfill": row.backfill,
        }
        for row in rows()
    ]
    return head + yaml.safe_dump(table, sort_keys=False, width=120)


def render() -> str:
    """Return the page."""
    table = "".join(
        f"| {row.name} | {', '.join(f'`{condition}`' for condition in row.conditions) or 'none'} "
        f"| {row.kstatus} | {row.copied} | {row.argo_cd} |\n"
        for row in rows()
    )
    return PAGE + table + MORE


PAGE = """\
<!-- Generated by build-tools/gitops_page.py (`make docs`); do not edit. -->
# GitOps

A Backfill in Git is applied like any other object. This page lists the states that Argo CD, Flux and `kubectl wait` see. It explains commands that
override Git, and the order of applying and deleting.

The operator writes `status`, its finalizer and events. It never writes `spec`, labels or annotations. So no tool finds a difference made by the
operator, and **none of this is needed**: `ignoreDifferences` for Backfills, for their defaults or for the CRD; an exception for
`metadata.finalizers`; a switch that disables self-heal.

## Health

| tool | needs | waits for |
|---|---|---|
| `kubectl wait`, Helm, Flux | nothing: conditions follow kstatus | the desired state holds: running, or paused or suspended on request, or complete |
| Flux, if the rows must be complete | [`healthCheckExprs`](../examples/gitops/flux.yaml) | complete, or with `after: Follow` caught up |
| Argo CD | [a health script and four actions](../examples/gitops/argo-cd.yaml) | as kstatus; paused, suspended and waiting for approval are `Suspended` |

```
kubectl patch configmap argocd-cm -n argocd --type=merge --patch-file examples/gitops/argo-cd.yaml
kubectl wait --for=condition=Complete bf/orders --timeout=4h
```

A running Backfill is healthy: a wave or a `dependsOn` behind it continues while it copies. Objects that need the rows wait with Flux's expressions, or in Argo CD with
a `Sync` hook, a Job that runs `kubectl wait --for=condition=Complete`.

## Commands that override Git

Self-heal resets a spec that was changed on the cluster, within seconds. The annotation `backfill.dev/override` overrides the spec. A tool does not change it
if Git has no annotation of this name:

```
kubectl annotate bf orders backfill.dev/override='{"desiredState":"Paused"}'       # again: pause, throttle, maxInFlight, executors, suspend in one
kubectl annotate bf orders backfill.dev/override-                                  # Git applies again
```

The conditions `Paused`, `Suspended` and `Throttled` have the reason `Override` then. An invalid value changes nothing: the previous override stays in
force, and the condition `OverrideIgnored` quotes the error.

Argo CD's scripts cannot read JSON. So its actions set two annotations of one word, which take precedence over the JSON:
`backfill.dev/desired-state` (`Running` or `Paused`) and `backfill.dev/suspend` (`true` or `false`). An empty one counts as absent.

| action | effect | offered |
|---|---|---|
| `pause` | `desired-state: Paused` | while it is not paused, not suspended and not finished |
| `resume` | empties both; if Git or the JSON may set another value, it sets `Running` and `false` | while one of them is requested |
| `suspend` | `suspend: true` | while it is not suspended and not finished |
| `retry` | a new `backfill.dev/restart-requested`: a failed Backfill resumes | when it has failed |

An override stays until it is removed or emptied, and hides later changes of these fields in Git. Argo CD's RBAC controls who may run an action
(`applications, action/backfill.dev/Backfill/pause`).

## Order

| objects | Argo CD | Flux |
|---|---|---|
| the chart: CRD, operator, tenants' parts | wave 0; the CRD is among the chart's templates, so each upgrade updates it | a separate `HelmRelease` or `Kustomization` |
| Backfills | wave 1 (`argocd.argoproj.io/sync-wave: "1"`) | `dependsOn` the one above |
| readers of the tables | wave 2, after a hook that waits | `dependsOn` `backfills-copied` |

* Delete in reverse order: the operator removes the finalizers. If the operator is deleted first, Backfills hang
  ([Delete](kubernetes.md#delete)).
* The CRD and namespaces that the chart creates are kept when a release is removed (`helm.sh/resource-policy: keep`, which Argo CD also supports).
* Argo CD renders the chart without the API server. So the checks for a missing namespace and for a second installation do not run. A missing namespace shows as
  a Role that cannot be applied.
* Leave `ttlSecondsAfterFinished` unset: Git would create a deleted Backfill again. It would find its work complete and end, again and again.
* A change of an immutable field (`source`, `target`, `transform`, `strategy`) is rejected when it is synced. Give the new job a new name.

## Statuses

Every distinguishable status, derived from the operator's rules. A test runs the script, the expressions and the rules of kstatus on each
([as objects](statuses.yaml)). A phase in parentheses belongs to an object whose newest spec the operator has not seen.

| phase | conditions | kstatus | Flux, copied | Argo CD |
|---|---|---|---|---|
"""

MORE = """
Argo CD shows `Progressing` for every object in deletion, without a script.
"""

if __name__ == "__main__":
    sys.stdout.write(render())
