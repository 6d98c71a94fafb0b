"""Harmful or malformed objects do not delay other objects."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cluster.fake_api import FakeApi
from support.operators.rig import NAMESPACE, SPEC, Rig

from backfill_api.shallow_json import DEPTH_MAX, loads
from backfill_operator.informer.cache import Cache
from backfill_operator.informer.compact import is_stub
from backfill_operator.informer.relist import Relist
from backfill_operator.informer.watch_session import GONE, WatchLines
from backfill_operator.kube.errors import RefusedError
from backfill_operator.kube.resources import BACKFILLS
from backfill_operator.metrics import Metrics
from backfill_operator.reconcile.launcher import Launcher
from backfill_operator.settings import OperatorSettings

DEEP = "@deep@"
GOOD = b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":"1","resourceVersion":"5"}}}'


def nested(levels):
    return '{"a":' * levels + "1" + "}" * levels


def depth(value):
    most = 0
    while isinstance(value, dict | list) and value:
        value, most = (next(iter(value.values())) if isinstance(value, dict) else value[0]), most + 1
    return most


class TestOneThatIsNestedTooDeeply:
    @pytest.mark.parametrize("levels", [70, 300, 4000])
    async def test_deep_object_does_not_stop_other_work(self, levels):
        """One object of 9 kB ended the operator for every namespace, in a watch, and again at each start in the list."""
        async with Rig() as rig:
            rig.api.instead[f'"{DEEP}"'] = nested(levels)
            rig.create("before")
            await rig.until_holds("Running", "before")
            rig.create("deep", driver={"template": {"metadata": DEEP}})
            await rig.until(lambda: rig.condition("Stalled", "deep") == ("True", "SpecRefused"))
            assert "spec.driver.template: is nested deeper than 64 levels" in str(rig.status("deep"))
            rig.create("after")
            await rig.until_holds("Running", "after")
            rig.restart()
            rig.edit("before", desiredState="Paused")
            await rig.until_holds("Paused", "before")
            rig.delete("deep")
            await rig.until(lambda: rig.get("deep") is None)

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda item: st.lists(item) | st.dictionaries(st.text(), item)))  # fmt: skip
    def test_other_json_is_parsed_as_usual(self, document):
        """Braces in strings are not nesting."""
        text = json.dumps({"deep": "]}{[" * 5, "document": document})

        assert loads(text.encode()) == json.loads(text)

    @pytest.mark.parametrize("levels", [DEPTH_MAX, 201, 5_000, 200_000])
    def test_other_fields_of_a_deep_object_are_read(self, levels):
        """A page of a list is not lost because of one item."""
        text = f'{{"items":[{{"name":"a\\\\","x":{nested(levels)}}},{{"name":"b"}}]}}'
        first, second = loads(text.encode())["items"]

        assert (first["name"], second) == ("a\\", {"name": "b"})
        assert depth(first) <= max(DEPTH_MAX, 200)


class TestOneThatIsLarge:
    def test_large_object_costs_no_more_memory_than_a_small_one(self):
        """A hundred objects of 1.3 MB took 160 MiB while they existed."""
        tracemalloc.start()
        try:
            cache = Cache()
            for number in range(100):
                metadata = {"name": f"job-{number}", "namespace": NAMESPACE, "uid": str(number), "resourceVersion": "5"}
                metadata["annotations"] = {"note": f"{number}" * 100_000}
                template = {"spec": {"containers": [{"name": f"{number}-{part}" * 20} for part in range(1000)]}}
                spec = SPEC | {"driver": {"template": template}}
                cache.put_backfill({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
            used, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert used < 2 * (1 << 20)
        assert list(cache.phases()) == ["Running"] * 100

    async def test_large_object_runs_like_any_other(self):
        """Omitted fields are read from the API server for each reconcile."""
        select = ["id", *(f"concat(name, '{'x' * 400}') AS c{number}" for number in range(100))]
        async with Rig() as rig:
            rig.create(transform={"select": select})
            await rig.until_holds("Running")
            assert is_stub(rig.operator.cache.backfill((NAMESPACE, "orders")))
            rig.edit(desiredState="Paused")
            await rig.until_holds("Paused")
            rig.delete()
            await rig.until(lambda: rig.get() is None)

    async def test_large_spec_is_refused_by_name_above_its_limit(self):
        """Its template would be in each of its pods."""
        async with Rig() as rig:
            containers = [{"name": "driver", "env": [{"name": "A", "value": "x" * 70_000}]}]
            rig.create("template", driver={"template": {"spec": {"containers": containers}}})
            rig.create("spec", spark={"conf": {f"spark.sql.{number}": "x" * 4000 for number in range(70)}})
            for name, message in (("template", "spec.driver.template: has 70,"), ("spec", "spec: has 2")):
                await rig.until(lambda name=name: rig.condition("Stalled", name) == ("True", "SpecRefused"), 30)
                assert message in str(rig.status(name))
            assert rig.objects() == []

    async def test_large_objects_halve_one_page_and_not_all_later_ones(self):
        """A few large objects among many small ones made every later list slow."""
        async with FakeApi() as api:
            for number in range(600):
                annotations = {"note": "x" * (400_000 if number < 4 else 10)}
                body = {"metadata": {"name": f"job-{number:03}", "annotations": annotations}, "spec": SPEC}
                api.store.create("backfills", NAMESPACE, body)
            settings = OperatorSettings(page_size=100)
            async with api.cluster(settings, response_bytes_max=1 << 20) as cluster:
                sizes = [len(page) async for page in cluster.pages(BACKFILLS)]

        assert sum(sizes) == 600
        assert max(sizes) >= 32


class TestOneThatNobodyCanRead:
    async def test_unreadable_object_hides_no_other_of_its_list(self):
        """It is skipped and counted, and does not count as deleted."""

        class OnePage:
            async def pages(self, resource, *_, **__):
                good = {"metadata": {"name": "good", "namespace": "a", "uid": "1", "resourceVersion": "5"}, "spec": {}}
                yield [
                    {"metadata": None},
                    {"metadata": {"name": "odd", "namespace": "a", "finalizers": 7, "uid": []}},
                    {},
                ]
                yield [good] if resource is BACKFILLS else [{"metadata": []}]

        cache, left_out, changed = Cache(), [], []
        relist = Relist(
            OnePage(), cache, OperatorSettings(), Metrics(), enqueue=changed.append, monotonic=lambda: 0.0,
            on_unreadable=lambda plural, _: left_out.append(plural),
        )  # fmt: skip
        await relist.once()

        assert ("a", "good") in set(cache.keys())
        assert ("a", "good") in changed
        assert {"backfills", "pods"} == set(left_out)

    @pytest.mark.parametrize(
        ("line", "delivered"),
        [
            (b'{"type":"ADDED","object":' + nested(3000).encode() + b"}", b""),
            (b"{" * 3000, b""),
            (b'{"type":"ADDED","object":null}' + b"{" * 101, b""),
            (b'{"type":"ERROR","object":{"code":500,"message":"etcd"}}', GONE),
            (GOOD, GOOD + b"\n"),
            (b'{"a":1}', b""),
            (b"<html>", b""),
        ],
    )  # fmt: skip
    async def test_unreadable_object_is_skipped_in_a_watch(self, line, delivered):
        """The other lines are delivered, and a watch of a failing server is opened again."""

        class Stream:
            status = 200

            @property
            def content(self):
                return self

            async def read(self, _):
                return next(chunks, b"")

        chunks = iter((GOOD + b"\n" + line, b"\n" + GOOD[:9], GOOD[9:] + b"\n", b'{"unfinished'))
        watch = WatchLines(Stream(), "backfills", lambda *_: None, silence_s=60)
        lines = [line async for line in watch.iter_chunked(1)]

        assert b"".join(lines) == GOOD + b"\n" + delivered + GOOD + b"\n"


class TestWhatCannotBeBuilt:
    @pytest.mark.parametrize("error", [RecursionError("deep"), TypeError("str"), KeyError("name"), ValueError("no")])
    async def test_unbuildable_objects_are_refused_in_the_status(self, error):
        """An exception in a builder left the phase `Launching` for ever, without a message."""

        def builds(*_):
            raise error

        launcher = Launcher(None, builds)
        with pytest.raises(RefusedError, match=f"cannot be built from this spec: {type(error).__name__}"):
            launcher.build(None, None, None)

    async def test_unbuildable_template_is_reported(self):
        """A template with 300 levels goes through the whole operator."""
        async with Rig() as rig:
            template = {"spec": {"affinity": json.loads(nested(300))}}
            rig.create(driver={"template": template})
            await rig.until(lambda: rig.condition("Stalled") == ("True", "SpecRefused"))


class TestAClusterThatWasRestored:
    async def test_restored_cluster_restarts_the_operator_with_an_empty_cache(self):
        """Versions go back: all new objects seemed old to the cache, and the health check passed."""
        async with Rig() as rig:
            rig.store.version = 10_000  # more than the writes of this test
            rig.create()
            await rig.until_holds("Running")
            await rig.until(lambda: rig.operator.relist.synced)
            rig.store.restore()
            first = rig.operators.pop()
            await rig.until(lambda: not first.alive, 15)
            assert "ClusterRestoredError" in repr(first.error.exceptions) + repr(first.error)
            rig.start()
            rig.create("later")
            await rig.until_holds("Running", "later")
            await rig.until(lambda: rig.operator.relist.synced)
            assert rig.running.alive
