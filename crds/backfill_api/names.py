"""Names that clusters store; changing one is a change of the API."""

from typing import Final

GROUP: Final = "backfill.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = "backfill.dev/v1alpha1"
KIND: Final = "Backfill"
LIST_KIND: Final = "BackfillList"
PLURAL: Final = "backfills"
SINGULAR: Final = "backfill"
SHORT_NAMES: Final = ("bf",)
CATEGORIES: Final = ("all",)

DEFAULT_NAMESPACE: Final = "default"

OVERRIDE_ANNOTATION: Final = f"{GROUP}/override"
"""JSON with the fields of `Override`, such as `desiredState`, `throttle` or `maxInFlight`; which take precedence over the spec."""

STATE_ANNOTATION: Final = f"{GROUP}/desired-state"
"""`Running` or `Paused`; takes precedence over the override annotation. Tools that cannot write JSON set it."""

SUSPEND_ANNOTATION: Final = f"{GROUP}/suspend"
"""`true` or `false`; takes precedence over the override annotation."""

VERIFY_ANNOTATION: Final = f"{GROUP}/verify-requested"
"""Any text; each new one is one receipt."""

RESTART_ANNOTATION: Final = f"{GROUP}/restart-requested"
"""Any text; each new one ends the attempt at a barrier, and the next one continues from there."""

REFRESH_ANNOTATION: Final = f"{GROUP}/refresh-requested"
"""Any text; each new one runs a complete job again, from the position that its target holds."""

SWITCH_ANNOTATION: Final = f"{GROUP}/switch-requested"
"""Any text; each new one is one switch-over, as soon as the target has caught up."""

UNDO_SWITCH_ANNOTATION: Final = f"{GROUP}/switch-undo-requested"
"""Any text; each new one undoes the switch-over."""

COMPLETE_SWITCH_ANNOTATION: Final = f"{GROUP}/switch-complete-requested"
"""Any text; each new one completes the switch-over, so that there is no undo."""

REPAIR_ANNOTATION: Final = f"{GROUP}/repair-requested"
"""Any text; each new one is one repair of the target."""

SKIP_CLOSING_ANNOTATION: Final = f"{GROUP}/skip-closing"
"""Any text; a deleted Backfill disappears without what its `deletionPolicy` asks for. Sources and targets stay as they are."""

CHANGED_BY_ANNOTATION: Final = f"{GROUP}/changed-by"
"""JSON of a `ChangeClaim`: who changes the Backfill, and why. It is set in the request that changes the spec or the override.

A command that this request causes carries the claim in `status.control.acks`. Each new text counts once, so `time` makes it new.
It is a claim: every user who may edit the object can write any name. The audit log of the API server is the proof.
"""

WATCHED_ANNOTATION: Final = f"{GROUP}/watched-until"
"""RFC 3339, at most a minute ahead: until then the progress of this object is written every two seconds instead of ten.

The viewer renews it, about every 30 seconds. Only the minute before the given time counts, by the clock of the operator: a past
time has no effect, and one that is 90 seconds ahead has none for 30 seconds. At most 50 objects are written at this pace at a time.
"""

ALL_JOBS_CONFIG_MAP: Final = f"{SINGULAR}-all-jobs"
"""ConfigMap in the operator's namespace with the switch for all jobs."""

ALL_JOBS_KEY: Final = "pauseAll"
"""Key of that ConfigMap: JSON of a `PauseAll`. All jobs pause while it is enabled. No ConfigMap, no key and an empty value do not pause."""

DRAIN_FINALIZER: Final = f"{GROUP}/drain"
"""Holds a deleted Backfill until its driver has stopped at a barrier."""

BACKFILL_LABEL: Final = f"{GROUP}/backfill"
"""Name of the Backfill, on every object that belongs to it."""

ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
"""Number of the attempt, on the objects of one attempt."""

UID_LABEL: Final = f"{GROUP}/uid"
"""UID of the Backfill; one that is deleted and created again has another."""

KIND_LABEL: Final = f"{GROUP}/attempt-kind"
"""`Run` or `Plan`, on the driver pod."""

ROLE_LABEL: Final = f"{GROUP}/role"
"""`driver` or `executor`."""

WORKLOAD_LABEL: Final = f"{GROUP}/workload-of"
"""Hash of the part of the spec from which a Workload of Kueue was created."""

LAUNCHED_LABEL: Final = f"{GROUP}/launched-of"
"""Hash of the part of the spec that a driver pod was made of, on the pod."""

EXECUTORS_LABEL: Final = f"{GROUP}/executors-of"
"""Hash of the part of the spec that the driver's executor pods are made of, on the driver pod."""

LAUNCHED_FIELDS_ANNOTATION: Final = f"{GROUP}/launched-fields"
"""Hashes of the fields that a driver pod was made of, on the pod: they tell which of them were edited since."""

FIELD_MANAGER: Final = "backfill-operator"
"""Owner of the fields that the operator applies."""
