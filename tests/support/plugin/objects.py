"""Backfills as an API server stores them."""

from backfill_kubectl.decisions.stored import read_stored

SPEC = {
    "source": {"type": "Delta", "delta": {"path": "/data/a", "key": ["id"]}},
    "target": {"type": "Delta", "delta": {"path": "/data/b"}},
    "strategy": {"type": "Snapshot"},
}
TIME = "2026-11-26T21:00:00Z"


def condition(type_, status="True", reason="Running", message="", since=TIME):
    """Return a condition."""
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def raw(name="orders", namespace="shop", *, spec=None, status=None, annotations=None, labels=None, **metadata):
    """Return an object."""
    return {
        "metadata": {
            "name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "7", "generation": 1,
            "creationTimestamp": "2026-11-26T20:00:00Z", "annotations": annotations or {}, "labels": labels or {}, **metadata,
        },
        "spec": SPEC | (spec or {}),
        "status": {"observedGeneration": 1, **(status or {})},
    }  # fmt: skip


def stored(*args, **fields):
    """Return the same, parsed."""
    return read_stored(raw(*args, **fields))


def running(control=None, conditions=(), **status):
    """Return the status of a Backfill with a driver."""
    return {
        "phase": "Running", "attempts": 1, "attempt": {"number": 1, "state": "Created", "podName": "orders-1-driver"},
        "control": {"attempt": 1, **(control or {})}, "conditions": [condition("Ready"), condition("DriverReady"), *conditions],
        **status,
    }  # fmt: skip
