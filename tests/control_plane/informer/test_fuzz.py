"""Objects that users can write may contain any value: the operator reads them, decides, and never creates half a driver."""

import copy
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from support.crd.crd_strategies import sound_specs, specs, statuses
from support.operators.rig import NAMESPACE, SPEC, Rig

from backfill_api.names import ATTEMPT_LABEL, BACKFILL_LABEL, DRAIN_FINALIZER, OVERRIDE_ANNOTATION, ROLE_LABEL
from backfill_api.spec.spec import BackfillSpec
from backfill_api.status.status import PendingCommand
from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.limits import Limits
from backfill_core.lifecycle.actions import LaunchDriver
from backfill_core.lifecycle.decide import decide
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import DriverPod, SpecRefused
from backfill_operator.drivers.certificates import Credentials
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.parse import StatusUnreadableError, observation_of, pod_of
from backfill_operator.manifests.attempt import Installation
from backfill_operator.reconcile.launcher import manifests_of

MODELS_ALONE = ("is repeated", "is a secret")
"""Rules that only the models check: a CEL rule for them would exceed a server's cost limit or be very long."""

NOW_MS = 1_800_000_000_000
CREDENTIALS = Credentials("key", "certificate", "token", "rpc")
BUILD = manifests_of(Installation("backfill-spark:test", limits=Limits(images=("*",), conf=("*",))))

RICH = SPEC | {
    "jobId": "a", "transform": {"select": ["id"], "where": "id > 5"}, "barrier": {"intervalMs": 1000, "commitEvery": 1},
    "throttle": {"rowsPerSecond": 5}, "pause": {"scope": "All"}, "desiredState": "Paused", "suspend": False, "after": "Follow",
    "spark": {"image": "a:b", "conf": {"spark.a": "b"}}, "executor": {"instances": 2, "resources": {"limits": {"memory": "2Gi"}}},
    "driver": {"template": {"metadata": {"labels": {"user.backfill.dev/a": "b"}}, "spec": {"containers": [{"name": "driver", "env": []}]}}},
    "strategy": {"type": "Snapshot", "snapshot": {}}, "backoffLimit": 3, "ttlSecondsAfterFinished": 60,
}  # fmt: skip

texts = st.text(max_size=12) | st.sampled_from(["", "Running", "None", "1Gi", "driver", "../..", "\x00", "ü", "-1"])
json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def paths(node, here=()):
    """Yield the path of each value in a document."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield (*here, name)
            yield from paths(value, (*here, name))
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield (*here, number)
            yield from paths(value, (*here, number))


def edited(document):
    """Return the paths that users can set: the server controls names, UIDs and their parents."""
    return [path for path in paths(document) if path[-1] not in ("name", "namespace", "uid") and path != ("metadata",)]


def with_value(document, path, value):
    """Return a document with another value at a path."""
    made = copy.deepcopy(document)
    node = made
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return made


@st.composite
def broken(draw, document, most=3):
    """Draw a document in which up to `most` values are replaced by arbitrary ones."""
    made = document
    for _ in range(draw(st.integers(0, most))):
        made = with_value(made, draw(st.sampled_from(sorted(edited(made), key=str))), draw(json))
        if not edited(made):
            return document
    return made


def backfill(spec, *, status=None, annotations=None, name="orders"):
    metadata = {"name": name, "namespace": NAMESPACE, "uid": "uid-1", "generation": 1, "resourceVersion": "5"}
    made = {"metadata": metadata | ({"annotations": annotations} if annotations is not None else {}), "spec": spec}
    return made | ({} if status is None else {"status": status})


POD = {
    "metadata": {
        "name": "orders-1-driver", "namespace": NAMESPACE, "uid": "pod-1", "resourceVersion": "6",
        "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00Z",
        "labels": {BACKFILL_LABEL: "orders", ATTEMPT_LABEL: "1", ROLE_LABEL: "driver"},
        "ownerReferences": [{"kind": "Backfill", "apiVersion": "backfill.dev/v1alpha1", "name": "orders", "uid": "uid-1", "controller": True}],
    },
    "status": {
        "phase": "Running", "podIP": "10.0.0.1", "reason": "Evicted", "message": "words",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "False", "message": "no node"}],
        "initContainerStatuses": [{"name": "init", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}],
        "containerStatuses": [{"name": "driver", "state": {"terminated": {"exitCode": 137, "message": "{}", "reason": "OOMKilled"}}}],
    },
}  # fmt: skip

STATUS = {
    "observedGeneration": 1, "phase": "Running", "attempts": 1, "failures": 0, "startTime": "2026-01-01T00:00:00Z",
    "attempt": {"number": 1, "kind": "Run", "state": "Created", "podName": "orders-1-driver", "podUid": "pod-1"},
    "conditions": [{"type": "Ready", "status": "True", "reason": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    "control": {"desiredRevision": 1, "ackedRevision": 1, "epoch": 5},
    "history": [{"number": 1, "reason": "Infrastructure"}],
}  # fmt: skip


def held(raw, pods=()):
    """Reconcile an object as the operator does; check its guarantees."""
    try:
        seen = observation_of(raw, pods)
    except StatusUnreadableError:
        return None
    decision = decide(seen, NOW_MS)
    for action in decision.actions:
        if not isinstance(action, LaunchDriver):
            continue
        assert isinstance(seen.spec, BackfillSpec)
        try:
            made = BUILD(seen, action, CREDENTIALS)
        except ManifestRefusedError:
            continue
        name = driver_name(seen.name, action.attempt)
        for manifest in (made.config_map, made.secret, made.service, made.pod):
            assert manifest["metadata"]["name"] == name
            assert manifest["metadata"]["ownerReferences"][0]["uid"] == seen.uid
        assert made.pod["spec"]["restartPolicy"] == "Never"
        assert made.pod["spec"]["containers"][0]["image"]
    return decision


class TestAnyObject:
    @given(broken(RICH))
    def test_any_spec_is_refused_or_gives_a_whole_driver(self, spec):
        """Refused, or a whole driver."""
        held(backfill(spec))

    @given(json)
    def test_any_value_as_a_spec_is_handled(self, spec):
        """Another CRD may let any value pass."""
        assert isinstance(observation_of(backfill(spec), ()).spec, SpecRefused)
        held(backfill(spec))

    @settings(max_examples=60)
    @given(broken(STATUS), broken(POD))
    def test_any_status_and_any_pod_are_handled(self, status, pod):
        """Users can edit both."""
        seen = pod_of(pod)
        assert isinstance(seen, DriverPod)
        held(backfill(SPEC, status=status), (seen,))

    @given(texts, st.dictionaries(texts, json, max_size=3))
    def test_any_annotation_is_handled(self, override, others):
        """The override is JSON that a user typed."""
        held(backfill(SPEC, annotations={**others, OVERRIDE_ANNOTATION: override}))

    @given(st.text(min_size=1, max_size=253))
    def test_any_name_is_handled(self, name):
        """The server checks names, and the operator derives names from them."""
        held(backfill(SPEC, name=name))

    @settings(max_examples=60)
    @given(broken(POD), broken(POD))
    def test_cache_accepts_any_pod(self, one, other):
        """Watch events first reach the cache."""
        cache = Cache()
        for pod in (one, other):
            if isinstance(pod.get("metadata"), dict) and isinstance(pod["metadata"].get("name"), str):
                labels = pod["metadata"].get("labels")
                if labels is None or isinstance(labels, dict):
                    cache.put_pod(pod)
        assert len(cache.pods((NAMESPACE, "orders"), "orders-1-driver")) <= 2


def a_command(pending):
    """Return whether the models, which check the members of each type, accept it as a command."""
    try:
        return bool(PendingCommand.model_validate(pending))
    except ValidationError:
        return False


class TestWhatTheSchemaAllows:
    @settings(max_examples=50)
    @given(specs)
    def test_any_spec_of_the_schema_is_refused_or_gives_a_whole_driver(self, spec):
        """The specs include those that violate CEL rules."""
        held(backfill(spec))

    @settings(max_examples=50)
    @given(sound_specs())
    def test_valid_spec_of_the_schema_is_read(self, spec):
        """If the CRD accepts a spec that the operator refuses, one of them is wrong: only a few rules exist only in the models."""
        seen = observation_of(backfill(spec), ()).spec
        if isinstance(seen, SpecRefused):
            assert all(any(words in error for words in MODELS_ALONE) for error in seen.errors), seen.errors
        held(backfill(spec))

    @settings(max_examples=50)
    @given(sound_specs(), statuses)
    def test_any_status_of_the_schema_is_read(self, spec, status):
        """An unreadable status stops all actions until a user corrects it. A command must have the member of its type."""
        control = status.get("control", {})
        control["pending"] = [item for item in control.get("pending", ()) if a_command(item)]
        assert held(backfill(spec, status=status)) is not None


class TestTheLoop:
    @pytest.mark.parametrize("seed", range(3))
    async def test_loop_continues_with_broken_objects(self, seed):
        """Forty broken objects delay no other."""

        chance = random.Random(seed)
        junk = [None, 7, -1, "", "x", [], {}, ["a"], {"a": "b"}, 1e308, True, "9" * 300]
        async with Rig() as rig:
            for number in range(40):
                spec = RICH
                for _ in range(chance.randint(1, 3)):
                    spec = with_value(spec, chance.choice(sorted(paths(spec), key=str)), chance.choice(junk))
                body = {"metadata": {"name": f"broken-{number}", "finalizers": [DRAIN_FINALIZER]}, "spec": spec}
                rig.store.create("backfills", NAMESPACE, body)
            rig.create("sound")
            await rig.until_holds("Running", "sound")
            await rig.until(
                lambda: all(
                    manifest.get("status", {}).get("phase") for manifest in rig.store.objects["backfills"].values()
                ),
                20,
            )
