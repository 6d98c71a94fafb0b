"""Texts that programs write: large ones are refused before they are parsed into values, and JSON is read as JSON."""

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
    """Return the errors of a document; none when it is valid."""
    try:
        load_backfill(text)
    except SpecError as error:
        return error.errors
    return ()


class TestALargeText:
    """A megabyte of YAML is refused at once: one user's text must not block the operator for others."""

    def test_the_fast_loader_is_used_where_it_is_there(self) -> None:
        """libyaml is ten times as fast, and errors must keep their positions."""
        assert yaml.__with_libyaml__ == (LOADER is not yaml.SafeLoader)

    @pytest.mark.parametrize(
        ("text", "words"),
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
    def test_is_refused_before_it_is_built(self, text: str, words: str) -> None:
        """It is refused by its size, before it costs time."""
        with pytest.raises(SpecError) as refused:
            load_backfill(text)

        assert words in str(refused.value)

    def test_of_many_errors_the_first_are_explained(self) -> None:
        """Each unknown name is compared with every field, and users do not read thousands of errors."""
        text = VALID + "".join(f"  unknown{number}: 1\n" for number in range(5_000))
        with pytest.raises(SpecError) as refused:
            load_backfill(text)

        assert len(refused.value.errors) == 51
        assert str(refused.value.errors[-1]) == "(document): has 4,950 further errors; correct these first"


class TestADocumentInJson:
    """A document that begins with a brace is read as JSON first (fault B13)."""

    @staticmethod
    def text(where: str, **given: Any) -> str:
        """Return the valid document with a filter, as Python writes it."""
        return json.dumps(document("/s", "/t", transform={"where": where}), **given)

    @pytest.mark.parametrize("text", ["name = '😀'", "name = '\\ud83d'", "name = 'ü\\/'"])
    @pytest.mark.parametrize("escapes", [True, False])
    def test_has_the_texts_that_were_written(self, text: str, escapes: bool) -> None:
        """A letter beyond the first plane is two escapes in JSON, and an error in YAML."""
        for before in ("", "\n ", "\ufeff"):
            found = load_backfill(before + self.text(text, ensure_ascii=escapes, indent=1))
            assert found.spec.transform.where == text

    def test_has_numbers_as_json_writes_them(self) -> None:
        """YAML 1.1 takes 1e3 for a text."""
        wrong = self.text("TRUE").replace('"where"', '"zzz": 1e3, "where"')
        assert [one.value for one in errors_of(wrong)] == ["1000.0"]

    def test_in_braces_may_be_yaml(self) -> None:
        """YAML has mappings in braces too, with plain names and comments."""
        begin = "{apiVersion: backfill.dev/v1alpha1, kind: Backfill, metadata: {name: a}, # so\n spec: "
        flow = begin + str(document("/s", "/t", backoffLimit=1)["spec"])
        assert load_backfill(flow + "}").spec.backoff_limit == 1

    @pytest.mark.parametrize(
        ("text", "words"),
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
    def test_is_refused_as_the_same_in_yaml(self, text: str, words: str) -> None:
        """The bounds and the place of a mistake are the same."""
        errors = errors_of(text)
        assert errors
        assert re.search(words, str(errors[0])), errors
