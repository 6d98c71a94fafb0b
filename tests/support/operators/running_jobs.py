"""Running Backfills with a full status, whose figures share little; names as a team would choose them."""

import random

from backfill_api.names import API_VERSION, KIND
from backfill_api.status.status import BackfillStatus
from backfill_core.lifecycle.inputs.timestamps import rfc3339

SPEC = {
    "source": {"type": "Delta", "delta": {"path": "s3a://here/orders", "key": ["id"]}},
    "target": {"type": "Delta", "delta": {"path": "s3a://there/orders"}},
}
NOW_MS = 1_800_000_000_000
STEPS = ("Start", "Copy", "KeyProof", "CatchUp", "Receipt")
CONDITIONS = ("Ready", "DriverReady", "ControlSynced", "Paused", "Suspended", "Throttled", "CaughtUp", "NonConvergent")
TEAMS = 50


def running_job(number, *, random_name=False, version=5):
    """Return one of them; the same number gives the same Backfill."""
    chance = random.Random(number)

    def ago(seconds):
        return rfc3339(NOW_MS - chance.randrange(seconds) * 1000)

    def count(most):
        return chance.randrange(most)

    rows, left_s = 10**6 + count(10**9), count(36_000)
    true = {"Ready", "DriverReady", "ControlSynced"} | ({"Throttled"} if count(10) == 0 else set())
    status = {
        "observedGeneration": 1, "phase": "Running", "startTime": ago(86_400), "attempts": 1,
        "conditions": [
            {
                "type": type_, "status": "True" if type_ in true else "False", "reason": "Running" if type_ in true else "NotRequested",
                "message": "", "lastTransitionTime": ago(86_400), "observedGeneration": 1,
            }
            for type_ in CONDITIONS
        ],
        "attempt": {"number": 1 + count(3), "kind": "Run", "state": "Created", "startTime": ago(86_400), "readyTime": ago(86_400)},
        "control": {"desiredRevision": 3, "ackedRevision": 3, "epoch": count(9999), "lastAckTime": ago(86_400), "attempt": 1},
        "progress": {
            "phase": "Snapshot", "step": chance.choice(STEPS), "percent": count(100), "rowsTotal": rows, "rowsDone": count(rows),
            "splitsTotal": count(9999), "splitsDone": count(999), "rowsPerSecond": count(200_000), "lagVersions": count(100),
            "lagSeconds": count(3600), "eta": rfc3339(NOW_MS + left_s * 1000), "reason": "the source is read as fast as it answers",
            "lastCommitTime": ago(20), "epoch": count(99_999),
            "steps": [{"name": step, "state": "Pending", "secondsLeft": count(9999)} for step in STEPS],
        },
        "receipt": {"targetVersion": count(999), "rows": count(rows), "complete": False, "verifiedAt": ago(86_400)},
    }  # fmt: skip
    BackfillStatus.model_validate(status)
    suffix = f"{chance.randrange(16**5):05x}-{number}" if random_name else f"{number // TEAMS:04}"
    metadata = {
        "name": f"orders-{suffix}", "namespace": f"team-{number % TEAMS}", "uid": f"uid-{number}", "generation": 1,
        "resourceVersion": str(version),
    }  # fmt: skip
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": SPEC, "status": status}
