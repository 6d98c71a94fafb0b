"""What the watches have shown: newest wins, whatever the order; what is gone does not come back through a page."""

import tracemalloc

from support.operators.rig import NAMESPACE, SPEC

from backfill_api.names import ATTEMPT_LABEL, BACKFILL_LABEL, RESTART_ANNOTATION, ROLE_LABEL
from backfill_core.lifecycle.naming import base_name
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.pruned_fields import LAST_APPLIED

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
    def test_whatever_the_order(self):
        """A write's answer, a watch and a list come in any."""
        cache = Cache()
        assert cache.put_backfill(backfill(7)) is True
        assert cache.put_backfill(backfill(5)) is False
        assert cache.put_backfill(backfill(7)) is False
        assert cache.backfill(KEY)["metadata"]["resourceVersion"] == "7"

    def test_a_pod_is_found_by_its_label_and_by_its_name(self):
        """A user may have removed its label."""
        cache = Cache()
        bare = pod(3)
        bare["metadata"]["labels"] = {}
        cache.put_pod(bare)
        assert cache.pods(KEY) == ()
        assert [one.name for one in cache.pods(KEY, "orders-1-driver")] == ["orders-1-driver"]

    def test_a_label_that_changes_moves_the_pod(self):
        """It is of one Backfill at a time."""
        cache = Cache()
        cache.put_pod(pod(3))
        cache.put_pod(pod(4) | {"metadata": pod(4)["metadata"] | {"labels": {BACKFILL_LABEL: "other"}}})
        assert cache.pods(KEY) == ()
        assert len(cache.pods((NAMESPACE, "other"))) == 1

    def test_a_long_name_s_pods_lead_to_it(self):
        """The label is short; the owner has the whole name."""
        long, cache = "a" * 200, Cache()
        assert cache.put_pod(pod(3, backfill=long, owner=long)) == (NAMESPACE, long)
        assert len(cache.pods((NAMESPACE, long))) == 1

    def test_another_object_of_the_name_is_not_dropped(self):
        """The news of the first one's end may be late."""
        cache = Cache()
        cache.put_backfill(backfill(9, uid="uid-2"))
        assert cache.drop_backfill(KEY, "uid-1") is False
        assert cache.backfill(KEY) is not None


class TestARelist:
    def test_what_goes_meanwhile_does_not_come_back(self):
        """A page is older than the watch."""
        cache = Cache()
        cache.put_backfill(backfill(5))
        cache.put_pod(pod(6))
        cache.begin_relist()
        cache.drop_backfill(KEY, "uid-1")
        cache.drop_pod((NAMESPACE, "orders-1-driver"), "pod-1")

        assert cache.put_backfill(backfill(5)) is False
        assert cache.put_pod(pod(6)) is None
        cache.end_relist()
        assert (cache.backfill(KEY), cache.pods(KEY)) == (None, ())

    def test_it_says_what_was_known_when_it_began(self):
        """What comes meanwhile is on no page, and is not gone."""
        cache = Cache()
        cache.put_backfill(backfill(5))
        known, _ = cache.begin_relist()
        cache.put_backfill(backfill(8, name="new", uid="uid-2"))
        assert known == {KEY: "uid-1"}


class TestItIsSmall:
    def test_what_is_not_read_is_left_out(self):
        """Half of an object is who wrote which field."""
        cache = Cache()
        applied = {
            "annotations": {LAST_APPLIED: "x" * 10_000, RESTART_ANNOTATION: "now", "mine": "yes"},
            "managedFields": [{"a": "b" * 10_000}],
        }
        cache.put_backfill(backfill(5, **applied))
        metadata = cache.backfill(KEY)["metadata"]
        assert (metadata["annotations"], "managedFields" in metadata) == ({RESTART_ANNOTATION: "now"}, False)

    def test_ten_thousand_of_each_are_no_burden(self):
        """A twentieth of the bar of 512 MiB for all of the operator."""
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

    def test_one_that_is_over_takes_a_third_and_reads_the_same(self):
        """A hundred thousand wait for the end of their time to live: less than 200 MiB."""
        number, over = 5_000, {"phase": "Succeeded", "conditions": [{"type": "Complete", "message": "x" * 900}] * 2}
        tracemalloc.start()
        try:
            cache = Cache()
            for one in range(number):
                cache.put_backfill(backfill(5, name=f"job-{one}", uid=f"uid-{one}") | {"status": over})
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert used / number * 100_000 < 200 * (1 << 20)
        assert cache.backfill((NAMESPACE, "job-1"))["status"] == over
        cache.put_backfill(backfill(6, name="job-1", uid="uid-1") | {"status": over | {"phase": "Running"}})
        assert cache.backfill((NAMESPACE, "job-1"))["status"]["phase"] == "Running"
