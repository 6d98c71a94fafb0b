"""A frame with every fact that a screen shows."""

from datetime import UTC, datetime, timedelta

from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import BackfillStatus
from backfill_api.wire import Command, PauseCommand, ThrottleCommand
from backfill_console.frame import EventNote, Trend
from backfill_console.object_frames import PodNote, frame_of_object

NOW = datetime(2026, 11, 21, 21, 37, 2, tzinfo=UTC)


def ago(**time):
    """Return the RFC 3339 time that is this long before `NOW`."""
    return (NOW - timedelta(**time)).isoformat().replace("+00:00", "Z")


SPEC = BackfillSpec.model_validate(
    {
        "source": {"type": "Delta", "delta": {"path": "s3a://here/orders", "key": ["id"]}},
        "target": {"type": "Delta", "delta": {"path": "s3a://there/orders"}},
        "verify": "Final",
        "backoffLimit": 5,
    }
)
STATUS = BackfillStatus.model_validate(
    {
        "phase": "Running",
        "startTime": ago(minutes=21, seconds=40),
        "attempts": 2,
        "conditions": [
            {"type": name, "status": status, "reason": "Running", "lastTransitionTime": ago(minutes=3)}
            for name, status in (("ExecutorsWaiting", "True"), ("Ready", "True"), ("Stalled", "False"))
        ],
        "attempt": {"number": 2, "state": "Created", "startTime": ago(minutes=19)},
        "history": [
            {"number": 1, "start": ago(minutes=23), "end": ago(minutes=20), "reason": "OOMKilled", "exitCode": 137}
        ],
        "control": {
            "desiredRevision": 3, "ackedRevision": 2, "epoch": 523, "lastAckTime": ago(minutes=5), "pendingSince": ago(seconds=1),
            "acks": [{"revision": 2, "type": "Resume", "epoch": 523, "ms": 400, "time": ago(minutes=5), "by": "anna", "note": "fixed"}],
            "pending": [{
                "revision": 3, "by": "anna",
                "command": Command(type="Throttle", throttle=ThrottleCommand(rows_per_second=100_000, for_seconds=1800)).model_dump(),
            }],
        },
        "progress": {
            "phase": "Snapshot", "step": "Copy", "percent": 61, "rowsTotal": 98_000_000, "rowsDone": 61_204_118, "rowsFiltered": 9785,
            "rowsPerSecond": 82_410, "lagVersions": 9, "lagSeconds": 65, "epoch": 812, "maxInFlight": 8, "lastCommitTime": ago(seconds=2),
            "etaSeconds": 720, "etaSecondsLow": 540, "etaSecondsHigh": 1080, "changesDone": 182_331, "sealMsP50": 150, "sealMsP99": 1300,
            "consumedVersion": 412, "headVersion": 421, "grid": 39 * "f" + "77" + 23 * "0",
            "warnings": ["source keeps what the job needs until 26 Nov 04:10; the snapshot needs 7 min more"],
            "limit": {"rowsPerSecond": 100_000, "until": ago(minutes=-33), "from": "Override", "by": "anna"},
            "eta": ago(minutes=-12), "reason": "throttled by command; about 190,000 rows/s without it",
            "steps": [
                {"name": "Start", "state": "Done", "seconds": 14},
                {"name": "Copy", "state": "Running", "seconds": 660, "secondsLeft": 420},
                {"name": "CatchUp", "state": "Pending", "secondsLeft": 120},
                {"name": "Receipt", "state": "Pending", "secondsLeft": 180},
            ],
        },
    }
)  # fmt: skip
PODS = (
    PodNote("orders-2-driver", "Running 1/1", "Running", 1140, "node-3"),
    PodNote("orders-2-exec-1", "Running 1/1", "Running", 1080, "node-1"),
    PodNote("orders-2-exec-2", "Pending", "Waiting", 1080, "Insufficient memory on 3 nodes"),
)
EVENT = EventNote(
    "ExecutorsWaiting", "1 of 2 executors: 0/3 nodes have enough memory", "Warning", time=ago(minutes=1), count=3
)
KEYS = (("p", "pause"), ("r", "resume"), ("q", "quit"))
CLUSTER = frame_of_object(
    "shop", "orders", SPEC, STATUS, now=NOW, pods=PODS, events=[EVENT], trend=Trend((1, 5, 7), (1, 1, 2)),
    updated_at=NOW - timedelta(seconds=2), keys=KEYS,
)  # fmt: skip
"""A Backfill in a cluster, as `kubectl backfill get -w` shows it."""

PAUSE_ALL = Command(type="Pause", pause=PauseCommand(scope="All"))
