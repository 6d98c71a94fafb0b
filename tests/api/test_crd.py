"""The CRD is up to date, valid for a cluster, and agrees with the models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import pytest
import yaml

from backfill_api.crd import fields, schema
from backfill_api.model import Model, member_of
from backfill_api.spec.sources import Source
from backfill_api.spec.strategies import Strategy
from backfill_api.spec.targets import Target
from backfill_api.spec.union import TaggedUnion
from backfill_api.status.conditions import Condition

CRD: dict[str, Any] = yaml.safe_load(schema.CRD_FILE.read_text(encoding="utf-8"))
VERSION: dict[str, Any] = CRD["spec"]["versions"][0]
OPEN_API: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]

KEYWORDS = {
    "additionalProperties", "default", "description", "enum", "format", "items", "maxItems", "maxLength", "maxProperties",
    "maximum", "minItems", "minLength", "minimum", "pattern", "properties", "required", "type",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}  # fmt: skip


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Return every schema below a schema, with its path."""
    yield path, node
    for name, one in node.get("properties", {}).items():
        yield from nodes(one, f"{path}.{name}")
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if keyword in node:
            yield from nodes(node[keyword], path + mark)


NODES = list(nodes(OPEN_API))


class TestGeneratedFiles:
    """A stale file would tell users of fields that are not there."""

    def test_the_crd_is_fresh(self) -> None:
        """A cluster would drop fields that only the models have; `make docs` writes it."""
        assert schema.CRD_FILE.read_text(encoding="utf-8") == schema.render()

    def test_the_field_reference_is_fresh(self) -> None:
        """Users look fields up there; `make docs` writes it."""
        assert fields.FIELDS_FILE.read_text(encoding="utf-8") == fields.render()

    def test_the_field_reference_explains_every_field(self) -> None:
        """A field without a meaning is a field without a docstring."""
        listed = [row for part in ("spec", "status") for row in fields.rows(OPEN_API["properties"][part], part)]

        assert len(listed) > 100
        assert [row.path for row in listed if not row.meaning] == []

    def test_the_crd_is_small(self) -> None:
        """`kubectl apply` keeps a copy in an annotation, which may have 262,144 bytes; Helm wants less."""
        assert schema.CRD_FILE.stat().st_size < schema.CRD_BYTES_MAX


class TestTheSchemaIsStructural:
    """A cluster refuses any other: rules of apiextensions.k8s.io/v1."""

    def test_with_known_keywords_only(self) -> None:
        """A cluster refuses `$ref`, `anyOf`, `const` and `title`."""
        unknown = {(path, keyword) for path, node in NODES for keyword in node if keyword not in KEYWORDS}

        assert unknown == set()

    def test_with_a_type_everywhere(self) -> None:
        """A cluster refuses untyped items and map values, and floats compare badly."""
        wrong = [
            path for path, node in NODES if node.get("type") not in {"object", "array", "string", "integer", "boolean"}
        ]

        assert wrong == []

    def test_with_items_for_every_list_and_a_meaning_for_every_object(self) -> None:
        """An object with both fields and free names would be pruned wrongly."""
        ways = ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields")
        for path, node in NODES:
            if path != ".metadata" and node["type"] == "object":
                assert sum(way in node for way in ways) == 1, path
            assert ("items" in node) == (node["type"] == "array"), path

    def test_with_required_fields_that_exist(self) -> None:
        """A required field with a default is never missing, so one of the two is a mistake."""
        for path, node in NODES:
            for name in node.get("required", []):
                assert "default" not in node["properties"][name], f"{path}.{name}"

    def test_with_valid_defaults(self) -> None:
        """A cluster checks every default against its schema."""
        types: dict[str, type[Any]] = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
        for path, node in NODES:
            if "default" in node:
                assert isinstance(node["default"], types[node["type"]]), path
                assert node["default"] in node.get("enum", [node["default"]]), path
                if node["type"] == "integer" and "minimum" in node:
                    assert node["minimum"] <= node["default"] <= node["maximum"], path
                if node["type"] == "object":
                    assert [name for name in node.get("required", []) if name not in node["default"]] == [], path

    def test_with_lists_merged_by_type_or_not_at_all(self) -> None:
        """Conditions belong to several writers; every other list to one."""
        for path, node in NODES:
            if path == ".status.conditions":
                assert node["x-kubernetes-list-type"] == "map"
                assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"])
            elif node["type"] == "array":
                assert node["x-kubernetes-list-type"] == "atomic", path


class TestTheSchemaIsBounded:
    """A cluster estimates what its rules cost at worst: everything that a rule can reach has a largest size."""

    @pytest.mark.parametrize(
        ("kind", "bound"),
        [("string", ("maxLength", "enum")), ("array", ("maxItems",)), ("integer", ("maximum",))],
    )
    def test_in_the_spec(self, kind: str, bound: tuple[str, ...]) -> None:
        """Without a bound, a cluster refuses the rule that reads the field as too expensive."""
        found = [(path, node) for path, node in NODES if path.startswith(".spec") and node["type"] == kind]

        assert found
        assert [path for path, node in found if not any(word in node for word in bound)] == []

    def test_in_every_map(self) -> None:
        """Maps without a bound make the estimate infinite."""
        assert [path for path, node in NODES if "additionalProperties" in node and "maxProperties" not in node] == []

    def test_in_what_rules_compare(self) -> None:
        """`self.?a == oldSelf.?a` is refused by a cluster: it estimates an optional value as unbounded."""
        rules = [rule["rule"] for _, node in NODES for rule in node.get("x-kubernetes-validations", [])]

        assert len(rules) > 15
        assert [rule for rule in rules if ".?" in rule] == []


UNIONS: dict[str, type[TaggedUnion]] = {"source": Source, "target": Target, "strategy": Strategy}
EACH = [(path, name) for path, union in UNIONS.items() for name in union.VARIANTS]


class TestUnions:
    """`{type: X, x: {…}}`: the schema says what the models say, and both say what was discovered."""

    @pytest.mark.parametrize("path", UNIONS)
    def test_offer_what_was_discovered(self, path: str) -> None:
        """A `type` without a member, or a member without a `type`, could not be used."""
        node, union = OPEN_API["properties"]["spec"]["properties"][path], UNIONS[path]

        assert set(node["properties"]["type"]["enum"]) == set(get_args(union.model_fields["type"].annotation))
        assert set(node["properties"]["type"]["enum"]) == set(union.VARIANTS)
        assert set(node["properties"]) == {"type", *map(member_of, union.VARIANTS)}

    @pytest.mark.parametrize("path", UNIONS)
    def test_have_a_rule_for_every_member(self, path: str) -> None:
        """Else a cluster would take what the driver refuses."""
        node = OPEN_API["properties"]["spec"]["properties"][path]
        rules = " ".join(one["rule"] for one in node["x-kubernetes-validations"])
        for name in node["properties"]["type"]["enum"]:
            member = member_of(name)
            # A strategy may leave its member out: with one strategy there is no other member to refuse.
            if path != "strategy" or len(Strategy.VARIANTS) > 1:
                assert f"'{name}'" in rules
                assert f"has(self.{member})" in rules
            assert "default" not in node["properties"][member]

    @pytest.mark.parametrize(("path", "name"), EACH)
    def test_name_real_fields_that_may_change(self, path: str, name: str) -> None:
        """A misspelt one would end every job whose pace is changed."""
        params = UNIONS[path].VARIANTS[name].params

        assert set(params.model_fields) >= params.MAY_CHANGE

    @pytest.mark.parametrize("path", UNIONS)
    def test_have_one_default_at_most(self, path: str) -> None:
        """Of two, the order of discovery would choose."""
        assert sum(one.default for one in UNIONS[path].VARIANTS.values()) <= 1

    def test_of_strategies_have_defaults_for_every_member(self) -> None:
        """A spec without `strategy` is a whole spec."""
        for name, variant in Strategy.VARIANTS.items():
            assert Strategy(type=name).params == variant.params()


class TestImmutability:
    """The state in a target belongs to one spec, which must stay the same."""

    @pytest.mark.parametrize("path", ["source", "transform", "target", "strategy", "jobId"])
    def test_is_said_for_each(self, path: str) -> None:
        """The user reads the message at `kubectl apply`, and must learn what to do instead."""
        spec = OPEN_API["properties"]["spec"]
        rules = [
            rule for _, node in nodes(spec["properties"][path]) for rule in node.get("x-kubernetes-validations", [])
        ]
        rules += spec["x-kubernetes-validations"]

        assert any("oldSelf" in one["rule"] and one["message"].startswith(path) for one in rules)

    @pytest.mark.parametrize(("path", "name"), EACH)
    def test_leaves_out_what_may_change_and_nothing_else(self, path: str, name: str) -> None:
        """A new field is part of the job's identity, unless its module says otherwise."""
        params = UNIONS[path].VARIANTS[name].params
        node = OPEN_API["properties"]["spec"]["properties"][path]
        rule = next(one["rule"] for one in node["x-kubernetes-validations"] if "oldSelf" in one["rule"])

        fields = {field: f"oldSelf.{member_of(name)}.{info.alias}" for field, info in params.model_fields.items()}
        held = {field for field, spelled in fields.items() if spelled in rule or rule == "self == oldSelf"}
        assert held == set(fields) - params.MAY_CHANGE


class TestTheObject:
    """What kubectl and other tools see."""

    def test_has_names_and_a_status_of_its_own(self) -> None:
        """Users type `kubectl get bf`, and a write of the status must not change the spec."""
        assert CRD["metadata"]["name"] == "backfills.backfill.dev"
        assert CRD["spec"]["names"]["shortNames"] == ["bf"]
        assert VERSION["subresources"] == {"status": {}}

    def test_does_not_look_finished_before_it_was_seen(self) -> None:
        """kstatus, Argo CD and Flux compare observedGeneration with the generation: a new object would look ready."""
        assert OPEN_API["properties"]["status"]["default"] == {"observedGeneration": -1}

    def test_has_no_other_defaults_in_the_status(self) -> None:
        """A default would look like an observation."""
        assert [path for path, node in NODES if path.startswith(".status.") and "default" in node] == []

    def test_has_columns_that_exist(self) -> None:
        """A column with a wrong path is empty for ever, without an error."""
        paths = {path for path, _ in NODES} | {".metadata.creationTimestamp"}
        for column in VERSION["additionalPrinterColumns"]:
            path, condition, field = column["jsonPath"].partition('[?(@.type=="Ready")]')
            assert path in paths
            assert not condition or field[1:] in Condition.model_fields
        shown = [one["name"] for one in VERSION["additionalPrinterColumns"] if "priority" not in one]
        assert shown == ["Phase", "Progress", "Ready", "Attempt", "Age"]

    def test_shows_no_moment_to_come_as_an_age(self) -> None:
        """kubectl writes `<invalid>` for a `date` that is ahead, and an ETA always is."""
        dates = [one["name"] for one in VERSION["additionalPrinterColumns"] if one["type"] == "date"]

        assert dates == ["Age"]


class TestTheConverter:
    """A type that a cluster cannot store is refused, and not written as another type."""

    def test_refuses_floats(self) -> None:
        """They are not the same number in every language."""

        class Heavy(Model):
            weight: float

        with pytest.raises(ValueError, match="floats"):
            schema.structural(Heavy.model_json_schema(by_alias=True))

    def test_refuses_unions_of_types(self) -> None:
        """Structural schemas have no `anyOf` with types."""

        class Loose(Model):
            size: int | str

        with pytest.raises(ValueError, match="unions"):
            schema.structural(Loose.model_json_schema(by_alias=True))
