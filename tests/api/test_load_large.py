"""Machine-written documents: large ones are rejected before their values are built, and JSON is parsed as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from support.tables.jobs import document

from backfill_api.load import LOADER, FieldError, SpecError, load_backfill

VALID = yaml.safe_dump(document("/s", "/t"))


def errors_of(text: str) -> tuple[FieldError, ...]:
    """Return the errors of a document, empty if it is valid."""
    try:
        load_backfill(text)
    except SpecError as error:
        return error.errors
    return ()


class TestALargeText:
    """A megabyte of YAML is rejected at once: one user's document must not block the operator."""

    def test_the_fast_loader_is_used_if_available(self) -> None:
        """libyaml is ten times as fast, and errors must keep their positions."""
        assert yaml.__with_libyaml__ == (LOADER is not yaml.SafeLoader)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("\n".join(f"k{number}: 1" for number in range(20_000)), "has 20,000 keys; keep it below 10,000"),
            ("[" * 300_000 + "]" * 300_000, "nested too deeply"),
            ("[" + "1," * 400_000 + "1]", "has more than 100,000 values"),
            ("a: &a [1,1,1,1,1,1,1,1,1]\n" + "\n".join(
                f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]" for n in range(9)
            ), "too large or refers to itself"),
        ],
        ids=["keys", "depth", "values", "laughs"],
    )  # fmt: skip
    def test_a_large_document_is_refused_before_it_is_built(self, text: str, message: str) -> None:
        """The size decides, before parsing costs time."""
        with pytest.raises(SpecError) as refused:
            load_backfill(text)

        assert message in str(refused.value)

    def test_only_the_first_errors_are_explained(self) -> None:
        """Each unknown name is compared with every field, and users do not read thousands of errors."""
        text = VALID + "".join(f"  unknown{number}: 1\n" for number in range(5_000))
        with pytest.raises(SpecError) as refused:
            load_backfill(text)

        assert len(refused.value.errors) == 51
        assert str(refused.value.errors[-1]) == "(document): has 4,950 further errors; correct these first"


class TestADocumentInJson:
    """A document that starts with a brace is parsed as JSON first (fault B13)."""

    @staticmethod
    def text(where: str, **options: Any) -> str:
        """Return the valid document with a filter, as Python writes it."""
        return json.dumps(document("/s", "/t", transform={"where": where}), **options)

    @pytest.mark.parametrize("text", ["name = '😀'", "name = '\\ud83d'", "name = 'ü\\/'"])
    @pytest.mark.parametrize("escapes", [True, False])
    def test_json_keeps_its_strings(self, text: str, escapes: bool) -> None:
        """A character outside the basic multilingual plane is two escapes in JSON, and an error in YAML."""
        for before in ("", "\n ", "\ufeff"):
            backfill = load_backfill(before + self.text(text, ensure_ascii=escapes, indent=1))
            assert backfill.spec.transform.where == text

    def test_json_keeps_its_numbers(self) -> None:
        """YAML 1.1 reads 1e3 as a string."""
        wrong = self.text("TRUE").replace('"where"', '"zzz": 1e3, "where"')
        assert [error.value for error in errors_of(wrong)] == ["1000.0"]

    def test_a_document_in_braces_may_be_yaml(self) -> None:
        """YAML also has mappings in braces, with plain names and comments."""
        begin = "{apiVersion: backfill.dev/v1alpha1, kind: Backfill, metadata: {name: a}, # so\n spec: "
        flow = begin + str(document("/s", "/t", backoffLimit=1)["spec"])
        assert load_backfill(flow + "}").spec.backoff_limit == 1

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('{"a": 1, "a": 2}', "is repeated"),
            ('{"a": 1', "is not YAML"),
            ('{"a": "\\ud83d"}', "escape"),
            ('{"a": ' + "[" * 100 + "]" * 100 + "}", "nested too deeply"),
            ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
            ('{"a": [' + "1," * 100_001 + "1]}", "has more than 100,000 values"),
            ('{"a": 1}{"b": 1}', "is not YAML"),
            ('{"a": NaN}', "did you mean|is required"),
        ],
        ids=["repeated key", "cut", "half a letter", "deep", "very deep", "long", "two documents", "no number"],
    )  # fmt: skip
    def test_wrong_json_is_refused_like_wrong_yaml(self, text: str, message: str) -> None:
        """The bounds and the position of an error are the same."""
        errors = errors_of(text)
        assert errors
        assert re.search(message, str(errors[0])), errors
