"""The page for the user on call: every reason of a condition, with its fix."""

import sys
from pathlib import Path
from typing import Literal

import errors_page

from backfill_api.status.conditions import REASONS

PAGE_FILE = Path(__file__).parent.parent / "docs" / "troubleshooting.md"

Need = Literal["act", "wait", "none"]

HINTS: dict[str, tuple[Need, str]] = {
    "Accepted": ("wait", "The operator starts an attempt within seconds. If it does not, check whether it is the leader: `kubectl logs -n backfill-system deploy/backfill-operator`."),
    "Launching": ("wait", "The message names the missing object: a node, an image, a volume. An edit of the spec replaces the pod. After `startupTimeoutSeconds` the attempt counts as failed."),
    "Running": ("none", "Nothing. `progress.reason` explains the current speed."),
    "AsRequested": ("none", "Nothing. Change `desiredState`, `suspend` or `throttle` in the spec to continue."),
    "Override": ("none", "Remove the annotation `backfill.dev/override`, and the spec applies again."),
    "Acknowledged": ("none", "Nothing."),
    "AcknowledgementPending": ("wait", "The driver answers after its next commit, which can take a minute during a MERGE."),
    "Complete": ("none", "Nothing. [Next steps](after-the-backfill.md)."),
    "BackingOff": ("wait", "`status.history` has the reason of the previous attempt; look it up here. The next attempt resumes from the last commit."),
    "BackoffLimitExceeded": ("act", "`status.history` has the reasons. Remove the cause, then raise `backoffLimit` or set `backfill.dev/restart-requested` to a new value."),
    "DeadlineExceeded": ("act", "Raise `activeDeadlineSeconds`, and the Backfill resumes from the last commit."),
    "StartupTimeout": ("act", "The message names the missing object. Give the pod a node with room, or raise `startupTimeoutSeconds`."),
    "NameCollision": ("act", "Delete the object that the message names, if no other tool owns it; or give the Backfill another name."),
    "ImageUnavailable": ("wait", "The registry does not answer, or refuses for now; the message quotes it. The next attempt pulls again."),
    "InitContainerFailed": ("act", "Read the message, and the log of the init container that it names. The next attempt runs it again."),
    "SubmissionFailed": ("act", "Correct the image, the pull secret, or the volume that the message names. An edit of the spec starts a new attempt."),
    "Infrastructure": ("wait", "The next attempt resumes from the last commit. If it was memory (`OOMKilled`), raise `driver.resources` or `executor.resources`."),
    "Draining": ("wait", "The driver stops at a barrier, at most `drainTimeoutSeconds`. If the operator is gone: [delete](kubernetes.md#delete)."),
    "SpecRefused": ("act", "Correct the field that the message names. If a limit of the chart refuses it, ask the administrator: [limits](kubernetes.md#tenants). The operator tries again at the time in the message, with the corrected policy or webhook. To try now, set `backfill.dev/restart-requested` to a new value."),
    "QuotaExceeded": ("act", "Raise the namespace's ResourceQuota, or request less in `driver.resources`. The driver starts as soon as the quota allows it."),
    "PodRejected": ("wait", "The message is the kubelet's: its disk, memory or devices are full, or it shuts down. The driver starts as soon as a node has capacity: free some, or request less in `driver.resources`."),
    "LaunchRefused": ("act", "The message is the API server's. `serviceaccount … not found` and `forbidden` mean that the namespace lacks the [tenant's part](kubernetes.md#tenants)."),
    "DriversLimited": ("wait", "The driver starts when another Backfill ends. The administrator can raise `limits.maxDrivers` or `limits.maxDriversPerNamespace`."),
    "SharedTarget": ("act", "Delete all but one of the Backfills that the message names, or give each a separate target."),
    "NotRequested": ("none", "Nothing."),
    "NoDriver": ("none", "Nothing."),
    "DriverMissing": ("wait", "The operator searches for a lost pod at the API server before the next attempt starts."),
    "DriverUnreachable": ("act", "The job continues, but accepts no command. A network policy must let the operator reach port 8443 of the driver; see also the pod's log."),
    "CommitStalled": ("wait", "The attempt ends after two minutes without counting as a failure, and the next one continues from the last commit. If it happens again, check the target's store and the network."),
    "JavaSilent": ("wait", "The attempt ends as `JavaDied` after a minute without counting as a failure, and the next one continues from the last commit. If it happens again, Java spends its time on garbage collection: raise `driver.resources.limits.memory`."),
    "ExecutorsWaiting": ("act", "The message is that of an executor pod. A count such as `0 of 2 executors are running` means that no pod was created: a quota is full, or a policy rejects the pod, and the driver's log contains the API server's message. Spark requests the pods again each second, and after a quarter of an hour the attempt ends as `Transient`. Correct the image, the pull secret, the Secret, or the node requirements of the pod. An edit of `spark` or `executor` replaces the attempt; if the executors only wait for a node, then only when no executor runs. After a fix outside of the spec, the executors start without further action."),
    "DriverStopping": ("wait", "The older driver's pod must be gone first. A pod on a lost node is removed by force a minute after its grace period."),
    "AcknowledgementTimeout": ("wait", "The command is sent again each second. Search the driver's log for a MERGE that does not end."),
    "CommandRefused": ("act", "The driver has an earlier version than the operator, without the field that the message names. Remove the field from the spec or the override, or restart the attempt (`backfill.dev/restart-requested`): the next one has the current image."),
    "AwaitingApproval": ("act", "Read `status.plan`, then set `spec.approved: true`. If the spec approves another plan, the message names the value to set."),
    "Planning": ("wait", "A pod opens the tables and makes the plan, which takes a minute or two."),
    "Planned": ("none", "Nothing."),
    "PlanOutdated": ("wait", "A pod makes a plan of the current spec, which takes a minute or two. Then the Backfill waits for another approval."),
    "Suspended": ("none", "Nothing."),
    "Restarted": ("none", "Nothing. The next attempt resumes."),
    "SpecChanged": ("none", "Nothing. The next attempt starts at once, and this one does not count as failed."),
    "EditPending": ("wait", "The edit takes effect with the next attempt. To start that now, set the annotation `backfill.dev/restart-requested` to a new value: the driver stops at a barrier, and the next attempt continues."),
    "Deleted": ("none", "Nothing."),
    "Stopped": ("wait", "The next attempt resumes from the last commit."),
    "EditIgnored": ("act", "Set the field back. A finished job does not follow its source: create a new Backfill with another `jobId` and target. `backfill verify` compares both tables at any time."),
    "OverrideIgnored": ("act", "Correct or remove the annotation; the condition quotes the error and the current override."),
    "CaughtUp": ("none", "Nothing."),
    "Behind": ("wait", "`progress.lagSeconds` shows the lag, and `progress.eta` the expected time of catching up."),
    "NonConvergent": ("act", "Cluster the target by its key, give the driver more cores, or use larger batches of changes ([operating](operating.md#what-to-watch))."),
    "Converging": ("none", "Nothing."),
    "PartialReceipt": ("wait", "Request a receipt again after the snapshot is copied, or set `verify: Final`."),
    "Equal": ("none", "Nothing."),
    "Unexpected": ("act", "The step is tried again. If the error ends the job, report it with the driver's log."),
}  # fmt: skip
"""The fix for each reason of the lifecycle; the page of errors has those of the driver."""

NEEDS: dict[Need, tuple[str, str]] = {
    "act": ("A user must act", "These reasons need an action of a user."),
    "wait": ("It continues without action", "If a reason lasts, follow the last column."),
    "none": ("Nothing is wrong", "These reasons describe the current state."),
}

INTRODUCTION = """\
<!-- Generated by build-tools/troubleshooting_page.py (`make docs`); do not edit. -->
# Troubleshooting

```
kubectl get bf orders -o wide                    # phase, rows, rate, lag, and the reason of Ready
kubectl describe bf orders                       # conditions with messages, and events
kubectl get bf orders -o jsonpath='{.status.history}'                                  # attempts that ended, and why
kubectl logs -l backfill.dev/backfill=orders,backfill.dev/role=driver --tail=20
```

Look up the reason of `Stalled`, else of `Reconciling`, else of `Ready`. A message names fields, objects and numbers. It
contains no values of rows.

## There is no status

| symptom | cause | fix |
|---|---|---|
| `observedGeneration: -1` and no condition | no operator watches this namespace, or no operator is the leader | add it to `watch.namespaces`; `kubectl get lease -n backfill-system` names the leader, `kubectl get pods -n backfill-system` shows the replicas |
| the operator logs `forbidden` for a namespace | its Role is missing there, or the namespace was created again | `helm upgrade`, which restores the tenant's part |
| event `CrdOutdated`, and no driver is launched | the CRD is older than the operator and drops fields of the status | `helm upgrade`, or apply `crds/backfills.yaml`: [versions](versions.md) |
| event `StatusUnreadable` | the status was edited, and its record of the attempt is invalid | no driver is launched, because one may exist; other waiting Backfills start first. Correct the field that the event names: `kubectl edit bf NAME --subresource=status` |
| event `StatusRefused` | a driver reported an invalid value | nothing: the status is written without it |
| `kubectl apply` is refused with `limits.…` | the chart's admission policy | stay within the limit, or ask the administrator |
| the object stays `Terminating`, and the operator was uninstalled | the finalizer waits for the operator | [remove it by hand](kubernetes.md#delete) |

"""


def render() -> str:
    """Return the page.

    Raises:
        KeyError: a reason has no hint.
    """
    lines = [INTRODUCTION]
    for need, (heading, explanation) in NEEDS.items():
        lines += [f"## {heading}\n\n{explanation}\n\n| reason | meaning | fix |\n|---|---|---|\n"]
        lines += [
            f"| `{reason}` | {REASONS[reason]} | {hint} |\n" for reason, (given, hint) in HINTS.items() if given == need
        ]
        lines += ["\n"]
    lines += [
        "## The driver ended with an error\n\nThe reason is the driver's own; [errors](errors.md) lists exit codes and retryable errors.\n\n",
        "| reason | meaning | fix |\n|---|---|---|\n",
    ]
    for reason, meaning in REASONS.items():
        if reason not in HINTS:
            lines.append(f"| `{reason}` | {meaning} | {errors_page.HINTS[reason]} |\n")
    return "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(render())
