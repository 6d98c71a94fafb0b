"""The cache keeps the newest version of each object in any order of events, and deleted objects do not return through a page."""

import json
import tracemalloc

import pytest
from support.operators.finished import finished
from support.operators.rig import NAMESPACE, SPEC

from backfill_api.names import (
    ATTEMPT_LABEL,
    BACKFILL_LABEL,
    OVERRIDE_ANNOTATION,
    RESTART_ANNOTATION,
    ROLE_LABEL,
    VERIFY_ANNOTATION,
)
from backfill_api.timestamps import ms_of
from backfill_core.lifecycle.naming import base_name
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.compact import is_stub
from backfill_operator.informer.pruned_fields import LAST_APPLIED
from backfill_operator.informer.resting import Rest
from backfill_operator.kube.deletions import KEPT_MAX, Deletions

KEY = (NAMESPACE, "orders")


def backfill(version, *, uid="uid-1", name="orders", **metadata):
    given = {"name": name, "namespace": NAMESPACE, "uid": uid, "resourceVersion": str(version)} | metadata
    return {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": given, "spec": SPEC}


def pod(version, *, backfill="orders", attempt=1, uid="pod-1", owner="orders"):
    labels = {BACKFILL_LABEL: base_name(backfill), ATTEMPT_LABEL: str(attempt), ROLE_LABEL: "driver"}
    owners = [
        {"kind": "Backfill", "apiVersion": "backfill.dev/v1alpha1", "name": owner, "uid": "uid-1", "controller": True}
    ]
    metadata = {
        "name": f"{base_name(backfill)}-{attempt}-driver", "namespace": NAMESPACE, "uid": uid,
        "resourceVersion": str(version), "labels": labels, "ownerReferences": owners,
    }  # fmt: skip
    return {"metadata": metadata, "status": {"phase": "Running", "podIP": "10.0.0.1"}}


class TestTheNewestWins:
    def test_newest_version_wins_in_any_order(self):
        """The response of a write, a watch and a list may arrive in any order."""
        cache = Cache()
        assert cache.put_backfill(backfill(7)) is True
        assert cache.put_backfill(backfill(5)) is False
        assert cache.put_backfill(backfill(7)) is False
        assert cache.backfill(KEY)["metadata"]["resourceVersion"] == "7"

    def test_pod_is_found_by_its_label_and_by_its_name(self):
        """A user may have removed its label."""
        cache = Cache()
        bare = pod(3)
        bare["metadata"]["labels"] = {}
        cache.put_pod(bare)
        assert cache.pods(KEY) == ()
        assert [pod.name for pod in cache.pods(KEY, "orders-1-driver")] == ["orders-1-driver"]

    def test_changed_label_moves_the_pod(self):
        """A pod belongs to one Backfill at a time."""
        cache = Cache()
        cache.put_pod(pod(3))
        cache.put_pod(pod(4) | {"metadata": pod(4)["metadata"] | {"labels": {BACKFILL_LABEL: "other"}}})
        assert cache.pods(KEY) == ()
        assert len(cache.pods((NAMESPACE, "other"))) == 1

    def test_pods_of_a_long_name_lead_to_their_backfill(self):
        """The label is shortened, but the owner has the whole name."""
        long, cache = "a" * 200, Cache()
        assert cache.put_pod(pod(3, backfill=long, owner=long)) == ((NAMESPACE, long),)
        assert len(cache.pods((NAMESPACE, long))) == 1

    def test_another_object_of_the_same_name_is_not_dropped(self):
        """The event of the first object's deletion may be late."""
        cache = Cache()
        cache.put_backfill(backfill(9, uid="uid-2"))
        assert cache.drop_backfill(KEY, "uid-1") is False
        assert cache.backfill(KEY) is not None


class TestADeletedObject:
    def test_older_versions_of_a_deleted_pod_do_not_return(self):
        """A response or a page may be older than the event of the deletion."""
        cache = Cache()
        cache.put_pod(pod(6))
        cache.drop_pod(pod(8))

        assert cache.put_pod(pod(7)) == ()
        assert cache.pods(KEY) == ()

    def test_pod_that_has_its_label_again_returns(self):
        """A watch with a selector reports the loss of the label as a deletion."""
        cache = Cache()
        cache.put_pod(pod(6))
        cache.drop_pod(pod(8))

        assert cache.put_pod(pod(9)) == (KEY,)

    def test_backfill_of_a_released_namespace_returns(self):
        """Its version is unchanged when the namespace is served again."""
        cache = Cache()
        cache.put_backfill(backfill(5))
        assert cache.evict_backfill(KEY, "uid-1") is True

        assert cache.put_backfill(backfill(5)) is True

    def test_pod_that_takes_the_name_of_another_one_wakes_both_backfills(self):
        """The late deletion of the first pod wakes no Backfill, because its name has a new owner."""
        cache = Cache()
        cache.put_pod(pod(6))

        assert cache.put_pod(pod(9, uid="pod-2", owner="other")) == ((NAMESPACE, "other"), KEY)
        assert cache.drop_pod(pod(8)) == ()

    def test_only_the_newest_deletions_are_kept(self):
        """Millions of objects are deleted in the life of a process. During a relist all are kept: its pages may be old."""
        deletions = Deletions()
        deletions.begin_relist()
        for number in range(KEPT_MAX + 5):
            deletions.note(str(number))
        assert deletions.cover("0", 1)
        deletions.end_relist()

        assert len(deletions) == KEPT_MAX
        assert (deletions.cover("4", 1), deletions.cover("5", 1)) == (False, True)


class TestARelist:
    def test_object_deleted_during_a_relist_does_not_return(self):
        """A page is older than the watch."""
        cache = Cache()
        cache.put_backfill(backfill(5))
        cache.put_pod(pod(6))
        cache.begin_relist()
        cache.drop_backfill(KEY, "uid-1")
        cache.drop_pod(pod(7))

        assert cache.put_backfill(backfill(5)) is False
        assert cache.put_pod(pod(6)) == ()
        cache.end_relist()
        assert (cache.backfill(KEY), cache.pods(KEY)) == (None, ())

    def test_relist_returns_the_objects_cached_at_its_start(self):
        """An object that is created meanwhile is on no page, and still exists."""
        cache = Cache()
        cache.put_backfill(backfill(5))
        cached, _ = cache.begin_relist()
        cache.put_backfill(backfill(8, name="new", uid="uid-2"))
        assert cached == {KEY: "uid-1"}


class TestItIsSmall:
    def test_unused_fields_are_not_stored(self):
        """Half of an object records the managers of fields."""
        cache = Cache()
        applied = {
            "annotations": {LAST_APPLIED: "x" * 10_000, RESTART_ANNOTATION: "now", "mine": "yes"},
            "managedFields": [{"a": "b" * 10_000}],
        }
        cache.put_backfill(backfill(5, **applied))
        metadata = cache.backfill(KEY)["metadata"]
        assert (metadata["annotations"], "managedFields" in metadata) == ({RESTART_ANNOTATION: "now"}, False)

    def test_ten_thousand_of_each_fit_into_memory(self):
        """They use a twentieth of the operator's limit of 512 MiB."""
        tracemalloc.start()
        try:
            cache = Cache()
            for number in range(10_000):
                cache.put_backfill(backfill(5, name=f"job-{number}", uid=f"uid-{number}"))
                cache.put_pod(pod(5, backfill=f"job-{number}", uid=f"pod-{number}"))
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert used < 40 * (1 << 20)

    @pytest.mark.parametrize("watched", [False, True], ids=["first seen", "watched"])
    def test_a_hundred_thousand_at_rest_fit_into_memory(self, watched):
        """A status with a long history has 6 kB, which compress to 2.3 kB. A restarted operator and a standby do not store it either."""
        number = 500
        texts = [json.dumps(finished(index, ttlSecondsAfterFinished=3600)) for index in range(number)]
        tracemalloc.start()
        try:
            cache = Cache()
            for index, text in enumerate(texts):
                if watched:
                    cache.put_backfill(backfill(4, name=f"job-{index}", uid="of before"))
                cache.put_backfill(json.loads(text))
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert len(cache) == number
        assert used / number * 100_000 < 80 * (1 << 20)


class TestOneThatIsAtRest:
    """It needs no decision, so its content is not stored. A change that needs a decision makes the stored object complete again."""

    KEY = (NAMESPACE, "job-1")

    def test_backfill_at_rest_has_its_deletion_time_and_a_stub(self):
        """A reader that needs more reads the API server."""
        cache, given = Cache(), finished(1, ttlSecondsAfterFinished=3600)
        cache.put_backfill(given)

        ended_ms = ms_of(given["status"]["completionTime"])
        assert cache.rest(self.KEY) == Rest(attempt=5, due_ms=ended_ms + 3_600_000)
        assert is_stub(cache.backfill(self.KEY))
        assert cache.backfill(self.KEY)["metadata"]["uid"] == given["metadata"]["uid"]
        assert list(cache.phases()) == ["Succeeded"]

    def test_backfill_without_a_time_to_live_has_no_deletion_time(self):
        """It stays until a user deletes it."""
        cache = Cache()
        cache.put_backfill(finished(1))
        assert cache.rest(self.KEY) == Rest(attempt=5, due_ms=None)

    def test_edited_status_is_stored_until_it_is_corrected(self):
        """A user may have edited it. Another change, of a label or by another operator, leaves it at rest."""
        cache, edited = Cache(), finished(1, version=6)
        cache.put_backfill(finished(1))
        edited["status"]["conditions"][0]["status"] = "False"
        cache.put_backfill(edited)
        assert cache.rest(self.KEY) is None
        assert cache.backfill(self.KEY)["status"] == edited["status"]

        cache.put_backfill(finished(1, version=7))
        assert cache.rest(self.KEY) is not None
        cache.put_backfill(finished(1, version=8))
        assert cache.rest(self.KEY) is not None

    @pytest.mark.parametrize("change", [
        {"metadata": {"generation": 4}}, {"metadata": {"finalizers": ["backfill.dev/drain"]}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, {"metadata": {"annotations": {RESTART_ANNOTATION: "now"}}},
        {"metadata": {"annotations": {OVERRIDE_ANNOTATION: "{}"}}}, {"metadata": {"annotations": {VERIFY_ANNOTATION: "now"}}},
        {"metadata": {"annotations": {LAST_APPLIED: '{"spec": {"verfy": "Final"}}'}}},
        {"status": {"phase": "Running"}}, {"status": {"attempt": {"number": 6, "state": "Created"}}}, {"status": {"conditions": []}},
        {"status": {"completionTime": "yesterday"}}, {"status": {"attempt": {"number": "six", "state": "Ended"}}}, {"status": {}},
    ], ids=str)  # fmt: skip
    def test_backfill_that_needs_a_decision_is_not_at_rest(self, change):
        """Causes are an edit, a finalizer, a deletion, a request, a dropped field, and a status that differs or cannot be read."""
        cache, given = Cache(), finished(1)
        for part, fields in change.items():
            given[part] = given[part] | fields if fields else {}
        cache.put_backfill(given)
        assert cache.rest(self.KEY) is None

    def test_succeeded_backfill_is_no_writer_but_a_failed_one_is(self):
        """A failed Backfill may be resumed."""
        cache, failed = Cache(), finished(2)
        failed["status"] |= {"phase": "Failed"}
        cache.put_backfill(finished(1))
        cache.put_backfill(failed)

        assert cache.target(self.KEY) is None
        target = cache.target((NAMESPACE, "job-2"))
        assert cache.writers(target) == {(NAMESPACE, "job-2")}
        cache.drop_backfill((NAMESPACE, "job-2"), failed["metadata"]["uid"])
        assert cache.writers(target) == set()
