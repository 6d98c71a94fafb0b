"""Warnings for Backfills with the same target, or with an unknown field."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.rig import SPEC, Rig

from backfill_operator.informer.pruned_fields import LAST_APPLIED, pruned_fields
from backfill_operator.informer.targets import target_of


def target(path):
    return {"type": "Delta", "delta": {"path": path}}


def of(path, namespace="shop", **table):
    delta = table or {"path": path}
    return target_of({"metadata": {"namespace": namespace}, "spec": {"target": {"delta": delta}}})


class TestOneTarget:
    async def test_both_writers_of_a_target_report_it_until_one_is_deleted(self):
        """Neither waited for the other, and both wrote."""
        async with Rig() as rig:
            rig.create("a", target=target("S3A://lake//orders"))
            rig.create("alone")
            await rig.until_holds("Running", "a")
            assert rig.condition("SharedTarget", "a") is None
            rig.create("b", target=target("s3a://lake/x/../orders/"))
            for name in ("a", "b"):
                await rig.until(lambda name=name: rig.condition("SharedTarget", name) == ("True", "SharedTarget"))
            await rig.until(lambda: rig.events().count("SharedTarget") == 2)
            assert rig.condition("SharedTarget", "alone") is None
            rig.delete("b")
            await rig.until(lambda: rig.get("b") is None and rig.condition("SharedTarget", "a") is None)

    async def test_many_writers_of_a_target_cost_no_more_than_a_few(self):
        """One more of three hundred writers caused a reconcile and a write of each: other launches took five seconds."""
        names = [f"job-{number:02}" for number in range(20)]
        async with Rig(relist_min_seconds=60, relist_max_seconds=60) as rig:
            for name in names[:-1]:
                rig.create(name, suspend=True)
            await self.expect_note(rig, names[:-1], "more than 3 other")
            versions = {name: rig.get(name)["metadata"]["resourceVersion"] for name in names[:-1]}
            rig.create(names[-1], suspend=True)
            await self.expect_note(rig, names[-1:], "more than 3 other")
            await rig.still(
                lambda: all(rig.get(name)["metadata"]["resourceVersion"] == versions[name] for name in versions),
                for_s=0.5,
            )
            for name in names[4:]:
                rig.delete(name)
            await self.expect_note(rig, names[:4], "")
            await self.expect_note(rig, names[:1], "job-01, job-02, job-03 write")
            rig.create("late", suspend=True)
            await self.expect_note(rig, [*names[:4], "late"], "more than 3 other")

    @staticmethod
    async def expect_note(rig, names, words):
        """Wait until each Backfill reports the other writers of its target; without a message, by name."""

        def says(name):
            conditions = rig.status(name).get("conditions", [])
            [message] = [condition["message"] for condition in conditions if condition["type"] == "SharedTarget"] or [
                ""
            ]
            return words in message if words else message and "more than" not in message

        await rig.until(lambda: all(says(name) for name in names), 15)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("/lake/orders", "/lake//orders/"), ("/lake/orders", "file:/lake/orders"), ("/lake/orders", "file:///lake/./orders"),
            ("s3://b/a", "s3a://b/a"), ("s3a://b/a b", "s3a://b/a%20b"), ("abfs://c@h/a", "abfss://C@h/a/"),
        ],
    )  # fmt: skip
    def test_target_is_the_same_in_any_spelling(self, one, other):
        """The paths differ only in their spelling."""
        assert of(one) == of(other)

    def test_target_is_different_for_other_tables(self):
        """A path in a pod's own file system belongs to its namespace, and so does a table's name."""
        assert (
            len(
                {
                    of("/a"),
                    of("/a", "b"),
                    of("/A"),
                    of("s3a://b/a"),
                    of("s3a://c/a"),
                    of("", table="a"),
                    of("", "b", table="a"),
                }
            )
            == 7
        )

    @given(st.text(), st.none() | st.text(), st.none() | st.integers() | st.lists(st.text()))
    def test_target_of_any_value_is_found_or_none(self, path, table, odd):
        """Users may type any value."""
        of(path, table=table)
        of(path)
        assert target_of({"metadata": {"namespace": "a"}, "spec": odd}) is None


class TestAFieldThatNobodyKnows:
    async def test_dropped_field_is_reported_by_an_event(self):
        """`verfy: Final` was silently dropped, and the job proved nothing."""
        applied = json.dumps({"spec": SPEC | {"verfy": "Final", "driver": {"template": {"any": 1}, "image": "x"}}})
        async with Rig() as rig:
            rig.create(annotations={LAST_APPLIED: applied}, driver={"template": {}})
            await rig.until(lambda: "FieldIgnored" in rig.events())
            [event] = [event for event in rig.store.objects["events"].values() if event["reason"] == "FieldIgnored"]
            assert event["note"].startswith("spec.verfy, spec.driver.image: unknown")
            await rig.until_holds("Running")

    @pytest.mark.parametrize(
        "text", ["", "[", "[]", "7", '{"spec":7}', '{"spec":{"a":null}}', "[" * 5000, '{"a":' * 5000]
    )
    def test_invalid_copy_of_the_object_is_ignored(self, text):
        """An annotation may contain any string."""
        assert pruned_fields({"metadata": {"annotations": {LAST_APPLIED: text}}, "spec": SPEC}) == ()
