"""Hostile objects next to one sound Backfill: no other object waits, and every deletion completes.

A seed makes a crowd: Backfills that are nested, large, out of range or in odd characters, in any field; pods that look like
drivers; drivers that report any value. The operator must survive everything that the API server accepts.
"""

import contextlib
import copy
import random

import urllib3
from support import attack
from support.cluster.fake_store import Refusal
from support.operators.rig import SPEC

from backfill_api.names import (
    API_VERSION,
    ATTEMPT_LABEL,
    BACKFILL_LABEL,
    KIND,
    OVERRIDE_ANNOTATION,
    RESTART_ANNOTATION,
    ROLE_LABEL,
    UID_LABEL,
    VERIFY_ANNOTATION,
)
from backfill_api.status.progress import Progress
from backfill_core.lifecycle.naming import driver_name
from backfill_operator.informer.pruned_fields import LAST_APPLIED

CROWD = 10
WITHIN_S = 40
DEEPEST = 250
"""The maximum depth of the test's own tools; tests/control_plane/faults/test_hostile_objects.py reaches 4,000."""

RICH = SPEC | {
    "jobId": "a", "transform": {"select": ["id"], "where": "id > 5"}, "barrier": {"intervalMs": 1000, "commitEvery": 1},
    "throttle": {"rowsPerSecond": 5}, "pause": {"scope": "All"}, "desiredState": "Running", "suspend": False, "after": "Follow",
    "verify": "None", "approval": "Automatic", "backoffLimit": 3, "activeDeadlineSeconds": 600, "startupTimeoutSeconds": 60,
    "ttlSecondsAfterFinished": 60, "deletionPolicy": "Drain", "drainTimeoutSeconds": 5, "retainDriver": "OnFailure",
    "strategy": {"type": "Snapshot", "snapshot": {"splitTargetSeconds": 4}},
    "spark": {"conf": {"spark.sql.shuffle.partitions": "8"}},
    "executor": {"instances": 2, "resources": {"limits": {"memory": "2Gi"}}, "template": {"spec": {"nodeSelector": {"a": "b"}}}},
    "driver": {
        "resources": {"requests": {"cpu": "1"}},
        "template": {
            "metadata": {"labels": {"user.backfill.dev/a": "b"}, "annotations": {"a": "b"}},
            "spec": {
                "tolerations": [{"key": "a", "operator": "Exists"}],
                "containers": [{"name": "driver", "env": [{"name": "A", "value": "b"}]}],
            },
        },
    },
}  # fmt: skip
NUMBERS = [0, -1, 2**31, 2**53 + 1, 2**63 - 1, -(2**63), 10**30, 1.5, 1e308, -0.0]
TEXTS = [
    "", " ", "\x00", "\u0085\u2028\u2029", "\ufeff", "\u202egnirts", "\U0001f9e8" * 50, "e\u0301" * 200, "\uffff", "ß" * 300,
    "../../..", "${env:HOME}", "{{.}}", "%s%n", "'; DROP TABLE x; --", "9" * 400, "None", "true", "a" * 300,
    "10Gi", "-1", "1e999", "\t\r\n", "*", "file:/x", "s3a://[::1", "http://[", "a" * 20_000,
]  # fmt: skip


def paths(node, here=()):
    """Yield the path of every value of a document."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, value in pairs:
        yield (*here, name)
        yield from paths(value, (*here, name))


def nested(chance, levels):
    """Return a value that is nested to this many levels, in mappings and lists."""
    value = 1
    for _ in range(levels):
        value = {"a": value} if chance.random() < 0.7 else [value]
    return value


def odd(chance, room=DEEPEST):
    """Return any value, nested at most `room` levels deep."""
    match chance.randrange(8):
        case 0:
            return chance.choice(NUMBERS)
        case 1 | 2:
            return chance.choice(TEXTS)
        case 3:
            return nested(chance, min(room, chance.choice([5, 60, 70, 130, 190, DEEPEST])))
        case 4:
            return [chance.choice(TEXTS) for _ in range(chance.choice([0, 3, 700]))]
        case 5:
            return {
                f"{chance.choice(TEXTS)[:60]}{number}": chance.choice(TEXTS)
                for number in range(chance.choice([0, 3, 300]))
            }
        case 6:
            return chance.choice([None, True, False, {}, []])
        case _:
            return "x" * chance.choice([10, 5_000, 70_000, 400_000])


def mutated(chance, document):
    """Return a document with one to four values replaced or added."""
    document_copy = copy.deepcopy(document)
    for _ in range(chance.randint(1, 4)):
        where = chance.choice(sorted(paths(document_copy), key=str))
        node = document_copy
        for step in where[:-1]:
            node = node[step]
        named = chance.random() < 0.3 and isinstance(node, dict)
        name = chance.choice(["later", "spark.plugins", "hostPath", "verfy", *TEXTS]) if named else where[-1]
        node[name] = odd(chance, max(0, DEEPEST - len(where)))
    return document_copy


def backfill(chance, name):
    """Return a Backfill with random errors."""
    annotations = {}
    for annotation in (OVERRIDE_ANNOTATION, RESTART_ANNOTATION, VERIFY_ANNOTATION, LAST_APPLIED):
        if chance.random() < 0.3:
            annotations[annotation] = chance.choice(
                [*TEXTS, "[" * 5000, '{"spec":{"a":' * 2000, '{"desiredState":"Paused"}']
            )
    spec = mutated(chance, RICH) if chance.random() < 0.9 else odd(chance)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }


def forged_pod(chance, victim):
    """Return a pod that claims to be a driver of another Backfill."""
    number = chance.choice([1, 2, 3, 999_999_999])
    metadata = victim["metadata"]
    labels = {
        BACKFILL_LABEL: metadata["name"], ROLE_LABEL: "driver", ATTEMPT_LABEL: str(chance.choice([number, "x", "-1"])),
        UID_LABEL: metadata["uid"],
    }  # fmt: skip
    owner = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    pod_metadata = {"name": chance.choice([f"forged-{number}", driver_name(metadata["name"], 7)]), "labels": labels}
    if chance.random() < 0.7:
        pod_metadata["ownerReferences"] = [owner]
    return {"metadata": pod_metadata, "spec": {"containers": [{"name": "a", "image": "b"}]}}


def says_anything(chance, double):
    """Make a driver report values that no driver reports."""
    update = {}
    for name, field in Progress.model_fields.items():
        if chance.random() < 0.3:
            update[name] = chance.choice([*NUMBERS[:7], *TEXTS[:8], None, [], {}, nested(chance, 50)])
        if field.annotation is int and chance.random() < 0.3:
            update[name] = chance.choice(NUMBERS[:7])
    double.progress = double.progress.model_copy(update=update)


def let(store, plural, namespace, body):
    """Create an object and return it; `None` if the API server rejects it."""
    with contextlib.suppress(Refusal, urllib3.exceptions.HTTPError, UnicodeError, ValueError):
        return store.create(plural, namespace, body)
    return None


async def attacked(rig, chance):
    """Create a crowd next to a sound Backfill; check that it is not disturbed, and that every object can be deleted."""
    rig.oracle.sound = {driver_name("sound", 1), driver_name("late", 1)}
    rig.create("sound")
    await rig.until_holds("Running", "sound", within_s=WITHIN_S)
    accepted = []
    for number in range(CROWD):
        odd_object = let(rig.store, "backfills", rig.namespace, backfill(chance, f"odd-{number}"))
        if odd_object is not None:
            accepted.append(odd_object)
            if chance.random() < 0.4:
                let(rig.store, "pods", rig.namespace, forged_pod(chance, odd_object))
        if chance.random() < 0.3:
            for double in list(rig.kubelet.running.values()):
                if double is not rig.double("sound"):
                    says_anything(chance, double)
    rig.create("late", target={"type": "Delta", "delta": {"path": "/data/late"}})
    await rig.until_holds("Running", "late", within_s=WITHIN_S)
    rig.edit("sound", desiredState="Paused")
    await rig.until_holds("Paused", "sound", within_s=WITHIN_S)
    if chance.random() < 0.5:
        rig.restart()
        rig.edit("sound", desiredState="Running")
        await rig.until_holds("Running", "sound", within_s=WITHIN_S)
    assert rig.attempt("sound") == 1
    names = [*(odd_object["metadata"]["name"] for odd_object in accepted), "sound", "late"]
    for name in names:
        rig.delete(name)
    await rig.until(
        lambda: not any(rig.get(name) for name in names), WITHIN_S,
        what=lambda: f"the end of {[name for name in names if rig.get(name)]}",
    )  # fmt: skip
    assert rig.running.alive


class TestBesideACrowd:
    async def test_no_other_object_waits_and_every_deletion_completes(self, rigs):
        """This holds for everything that the API server accepts."""
        for seed in attack.seeds(2, share=0.5):
            async with rigs() as rig:
                await attacked(rig, random.Random(seed))
