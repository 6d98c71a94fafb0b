"""The CRD is up to date, valid for a cluster, and agrees with the models."""

from __future__ import annotations

import json
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

CRD: dict[str, Any] = yaml.load(schema.CRD_FILE.read_text(encoding="utf-8"), yaml.CSafeLoader)
VERSION: dict[str, Any] = CRD["spec"]["versions"][0]
OPEN_API: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]

KEYWORDS = {
    "additionalProperties", "default", "description", "enum", "format", "items", "maxItems", "maxLength", "maxProperties",
    "maximum", "minItems", "minLength", "minimum", "pattern", "properties", "required", "type",
    "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}  # fmt: skip


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema below a schema, with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for keyword, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if keyword in node:
            yield from nodes(node[keyword], path + mark)


NODES = list(nodes(OPEN_API))


class TestGeneratedFiles:
    """A stale file would describe fields that do not exist."""

    def test_the_crd_is_fresh(self) -> None:
        """A cluster would drop fields that only the models have; `make docs` writes the file."""
        assert schema.CRD_FILE.read_text(encoding="utf-8") == schema.render()

    def test_the_field_reference_is_fresh(self) -> None:
        """Users look fields up in it; `make docs` writes it."""
        assert fields.FIELDS_FILE.read_text(encoding="utf-8") == fields.render()

    def test_the_field_reference_explains_every_field(self) -> None:
        """A field without a meaning is a field without a docstring."""
        listed = [row for part in ("spec", "status") for row in fields.rows(OPEN_API["properties"][part], part)]

        assert len(listed) > 100
        assert [row.path for row in listed if not row.meaning] == []

    def test_the_crd_is_small(self) -> None:
        """`kubectl apply` keeps a copy in an annotation, which may have 262,144 bytes; Helm wants less."""
        assert len(json.dumps(CRD)) < schema.CRD_BYTES_MAX


class TestTheSchemaIsStructural:
    """A cluster rejects a schema that violates the rules of apiextensions.k8s.io/v1."""

    def test_the_schema_has_known_keywords_only(self) -> None:
        """A cluster rejects `$ref`, `anyOf`, `const` and `title`."""
        unknown = {(path, keyword) for path, node in NODES for keyword in node if keyword not in KEYWORDS}

        assert unknown == set()

    def test_every_node_has_a_type(self) -> None:
        """A cluster rejects untyped items and map values, and floats compare badly."""
        wrong = [
            path for path, node in NODES if node.get("type") not in {"object", "array", "string", "integer", "boolean"}
        ]

        assert wrong == []

    def test_every_list_has_items_and_every_object_one_form(self) -> None:
        """An object with both fields and free names would be pruned wrongly."""
        forms = ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields")
        for path, node in NODES:
            if path != ".metadata" and node["type"] == "object":
                assert sum(form in node for form in forms) == 1, path
            assert ("items" in node) == (node["type"] == "array"), path

    def test_required_fields_exist_and_have_no_default(self) -> None:
        """A required field with a default is never missing, so one of the two is a mistake."""
        for path, node in NODES:
            for name in node.get("required", []):
                assert "default" not in node["properties"][name], f"{path}.{name}"

    def test_defaults_are_valid(self) -> None:
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

    def test_lists_merge_by_type_or_not_at_all(self) -> None:
        """Conditions belong to several writers; every other list belongs to one."""
        for path, node in NODES:
            if path == ".status.conditions":
                assert node["x-kubernetes-list-type"] == "map"
                assert set(node["x-kubernetes-list-map-keys"]) <= set(node["items"]["required"])
            elif node["type"] == "array":
                assert node["x-kubernetes-list-type"] == "atomic", path


class TestTheSchemaIsBounded:
    """A cluster estimates the highest cost of its rules, so every value that a rule reads has a maximum size."""

    @pytest.mark.parametrize(
        ("kind", "bound"),
        [("string", ("maxLength", "enum")), ("array", ("maxItems",)), ("integer", ("maximum",))],
    )
    def test_fields_of_the_spec_have_bounds(self, kind: str, bound: tuple[str, ...]) -> None:
        """Without a bound, a cluster rejects the rule that reads the field as too expensive."""
        bounded = [(path, node) for path, node in NODES if path.startswith(".spec") and node["type"] == kind]

        assert bounded
        assert [path for path, node in bounded if not any(keyword in node for keyword in bound)] == []

    def test_maps_have_bounds(self) -> None:
        """Maps without a bound make the estimate infinite."""
        assert [path for path, node in NODES if "additionalProperties" in node and "maxProperties" not in node] == []

    def test_rules_compare_no_optional_values(self) -> None:
        """A cluster rejects `self.?a == oldSelf.?a`, because it estimates an optional value as unbounded."""
        rules = [rule["rule"] for _, node in NODES for rule in node.get("x-kubernetes-validations", [])]

        assert len(rules) > 15
        assert [rule for rule in rules if ".?" in rule] == []


UNIONS: dict[str, type[TaggedUnion]] = {"source": Source, "target": Target, "strategy": Strategy}
EACH = [(path, name) for path, union in UNIONS.items() for name in union.VARIANTS]


class TestUnions:
    """`{type: X, x: {…}}`: the schema and the models offer the same discovered types."""

    @pytest.mark.parametrize("path", UNIONS)
    def test_unions_offer_the_discovered_types(self, path: str) -> None:
        """A `type` without a member, or a member without a `type`, could not be used."""
        node, union = OPEN_API["properties"]["spec"]["properties"][path], UNIONS[path]

        assert set(node["properties"]["type"]["enum"]) == set(get_args(union.model_fields["type"].annotation))
        assert set(node["properties"]["type"]["enum"]) == set(union.VARIANTS)
        assert set(node["properties"]) == {"type", *map(member_of, union.VARIANTS)}

    @pytest.mark.parametrize("path", UNIONS)
    def test_unions_have_a_rule_for_every_member(self, path: str) -> None:
        """Otherwise a cluster would accept a spec that the driver rejects."""
        node = OPEN_API["properties"]["spec"]["properties"][path]
        rules = " ".join(rule["rule"] for rule in node["x-kubernetes-validations"])
        for name in node["properties"]["type"]["enum"]:
            member = member_of(name)
            # A strategy may leave its member out: with one strategy there is no other member to refuse.
            if path != "strategy" or len(Strategy.VARIANTS) > 1:
                assert f"'{name}'" in rules
                assert f"has(self.{member})" in rules
            assert "default" not in node["properties"][member]

    @pytest.mark.parametrize(("path", "name"), EACH)
    def test_may_change_names_real_fields(self, path: str, name: str) -> None:
        """A misspelled name would end every job whose pace changes."""
        params = UNIONS[path].VARIANTS[name].params

        assert set(params.model_fields) >= params.MAY_CHANGE

    @pytest.mark.parametrize("path", UNIONS)
    def test_unions_have_one_default_at_most(self, path: str) -> None:
        """The order of discovery would choose between two defaults."""
        assert sum(variant.default for variant in UNIONS[path].VARIANTS.values()) <= 1

    def test_strategies_have_defaults_for_every_member(self) -> None:
        """A spec without `strategy` is complete."""
        for name, variant in Strategy.VARIANTS.items():
            assert Strategy(type=name).params == variant.params()


class TestImmutability:
    """The state in a target belongs to one spec, which must stay the same."""

    @pytest.mark.parametrize("path", ["source", "transform", "target", "strategy", "jobId"])
    def test_immutability_is_declared_for_each_field(self, path: str) -> None:
        """`kubectl apply` prints the message, which must name the alternative."""
        spec = OPEN_API["properties"]["spec"]
        rules = [
            rule for _, node in nodes(spec["properties"][path]) for rule in node.get("x-kubernetes-validations", [])
        ]
        rules += spec["x-kubernetes-validations"]

        assert any("oldSelf" in rule["rule"] and rule["message"].startswith(path) for rule in rules)

    @pytest.mark.parametrize(("path", "name"), EACH)
    def test_immutability_omits_only_the_fields_that_may_change(self, path: str, name: str) -> None:
        """A new field is part of the job's identity, unless its module declares otherwise."""
        params = UNIONS[path].VARIANTS[name].params
        node = OPEN_API["properties"]["spec"]["properties"][path]
        rule = next(
            validation["rule"] for validation in node["x-kubernetes-validations"] if "oldSelf" in validation["rule"]
        )

        fields = {field: f"oldSelf.{member_of(name)}.{info.alias}" for field, info in params.model_fields.items()}
        immutable = {field for field, spelled in fields.items() if spelled in rule or rule == "self == oldSelf"}
        assert immutable == set(fields) - params.MAY_CHANGE


class TestTheObject:
    """The object as kubectl and other tools see it."""

    def test_the_object_has_names_and_a_status_subresource(self) -> None:
        """Users type `kubectl get bf`, and a write of the status must not change the spec."""
        assert CRD["metadata"]["name"] == "backfills.backfill.dev"
        assert CRD["spec"]["names"]["shortNames"] == ["bf"]
        assert VERSION["subresources"] == {"status": {}}

    def test_a_new_object_does_not_look_finished(self) -> None:
        """kstatus, Argo CD and Flux compare observedGeneration with the generation: a new object would look ready."""
        assert OPEN_API["properties"]["status"]["default"] == {"observedGeneration": -1}

    def test_the_status_has_no_other_defaults(self) -> None:
        """A default would look like an observation."""
        assert [path for path, node in NODES if path.startswith(".status.") and "default" in node] == []

    def test_columns_exist(self) -> None:
        """A column with a wrong path stays empty, without an error."""
        paths = {path for path, _ in NODES} | {".metadata.creationTimestamp"}
        for column in VERSION["additionalPrinterColumns"]:
            path, condition, field = column["jsonPath"].partition('[?(@.type=="Ready")]')
            assert path in paths
            assert not condition or field[1:] in Condition.model_fields
        shown = [column["name"] for column in VERSION["additionalPrinterColumns"] if "priority" not in column]
        assert shown == ["Phase", "Progress", "Ready", "Attempt", "Age"]

    def test_future_times_are_not_shown_as_an_age(self) -> None:
        """kubectl prints `<invalid>` for a future `date`, and an ETA is always in the future."""
        dates = [column["name"] for column in VERSION["additionalPrinterColumns"] if column["type"] == "date"]

        assert dates == ["Age"]


class TestTheConverter:
    """A type that a cluster cannot store is rejected, not converted to another type."""

    def test_floats_are_refused(self) -> None:
        """They are not the same number in every language."""

        class Heavy(Model):
            weight: float

        with pytest.raises(ValueError, match="floats"):
            schema.structural(Heavy.model_json_schema(by_alias=True))

    def test_unions_of_types_are_refused(self) -> None:
        """Structural schemas have no `anyOf` with types."""

        class Loose(Model):
            size: int | str

        with pytest.raises(ValueError, match="unions"):
            schema.structural(Loose.model_json_schema(by_alias=True))
