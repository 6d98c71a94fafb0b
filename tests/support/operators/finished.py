"""A finished Backfill after a long life: nine conditions, five attempts, a receipt; two of them share little."""

import random

from support.operators.rig import NAMESPACE

from backfill_api.names import API_VERSION, KIND
from backfill_api.status.status import BackfillStatus
from backfill_api.timestamps import rfc3339

CONDITIONS = {
    "Ready": "Complete", "Complete": "Complete", "Finished": "Complete", "Paused": "NotRequested", "Suspended": "NotRequested",
    "Throttled": "NotRequested", "DriverReady": "NoDriver", "CaughtUp": "CaughtUp", "Verified": "Equal",
}  # fmt: skip
"""Condition types with the reason of each."""

SAYS_NO = {"NotRequested", "NoDriver"}
BEGAN_MS, YEAR_MS = 1_700_000_000_000, 365 * 86_400_000
GENERATION = 3


def finished(number, *, version=5, **spec):
    """Return one of them; the same number gives the same Backfill."""
    chance = random.Random(number)

    def characters(count):
        return "".join(chance.choices("0123456789abcdef", k=count))

    def time():
        return rfc3339(BEGAN_MS + chance.randrange(YEAR_MS))

    def count():
        return chance.randrange(10**9)

    def message():
        return f"{count():,} rows of {count():,} files are equal at epoch {count()}, and {count():,} changes were merged since {time()}"

    name, message_ = f"job-{number}", " ".join(message() for _ in range(5))
    rows = {"rowsTotal": count(), "rowsFiltered": count()}
    status = {
        "observedGeneration": GENERATION,
        "phase": "Succeeded",
        "conditions": [
            {
                "type": type_, "status": "False" if reason in SAYS_NO else "True", "reason": reason,
                "message": message_ if reason == "Complete" else "", "lastTransitionTime": time(), "observedGeneration": GENERATION,
            }
            for type_, reason in CONDITIONS.items()
        ],
        "startTime": time(),
        "completionTime": time(),
        "attempts": 5,
        "failures": 4,
        "attempt": {
            "number": 5, "kind": "Run", "state": "Ended", "podName": f"{name}-5-driver", "podUid": characters(36), "startTime": time(),
            "readyTime": time(), "tokenHashes": [characters(32)],
        },
        "control": {"desiredRevision": 9, "ackedRevision": 9, "epoch": count(), "lastAckTime": time(), "attempt": 5},
        "progress": rows | {
            "phase": "Done", "step": "Receipt", "percent": 100, "rowsDone": count(), "splitsTotal": count(), "splitsDone": count(),
            "rowsPerSecond": count(), "reason": message(), "lastCommitTime": time(), "epoch": count(),
            "steps": [{"name": step, "state": "Done", "seconds": count()} for step in ("Start", "Copy", "KeyProof", "CatchUp", "Receipt")],
        },
        "receipt": rows | {
            "sourceVersion": count(), "sourcePosition": f"version {count()}", "targetVersion": count(), "epoch": count(), "rows": count(),
            "digest": characters(64), "verifiedAt": time(), "filesByBytes": count(), "rowsByRows": count(),
        },
        "history": [
            {"number": attempt, "kind": "Run", "start": time(), "end": time(), "reason": "Infrastructure", "exitCode": 137}
            for attempt in range(1, 6)
        ],
    }  # fmt: skip
    BackfillStatus.model_validate(status)
    sides = {
        "source": {"type": "Delta", "delta": {"path": f"s3a://{characters(12)}/orders", "key": ["order_id"]}},
        "target": {"type": "Delta", "delta": {"path": f"s3a://{characters(12)}/orders", "writeMode": "Upsert"}},
        "transform": {"select": ["order_id", f"upper(c_{characters(8)}) AS status"], "where": f"amount > {count()}"},
    }
    metadata = {
        "name": name, "namespace": NAMESPACE, "uid": characters(36), "resourceVersion": str(version), "generation": GENERATION,
        "creationTimestamp": time(),
    }  # fmt: skip
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": sides | spec, "status": status}
