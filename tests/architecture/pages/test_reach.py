"""No field, variable or setting can name a location without a decision on the page about reach."""

import re
from pathlib import Path
from typing import Literal

import pytest
from support.repository import ROOT, program

from backfill_api.model import Model

page = program("reach_page")
SECTIONS = {"spec": page.spec_fields(), "environment": page.environment()} | {
    name: page.listed(name) for name in ("settings", "log", "properties", "kafka")
}


class Inner(Model):
    """A model inside another model."""

    address: str | None = None
    ways: tuple[dict[str, str], ...] = ()


class Outer(Model):
    """Fields of each kind."""

    path: str = ""
    folder: Path = Path()
    number: int = 0
    choice: Literal["a", "b"] = "a"
    inner: tuple[Inner, ...] = ()


class TestTheFieldsOfAModel:
    """The page finds all fields of a model that hold strings."""

    def test_fields_that_hold_strings_are_found_at_any_depth(self):
        """A choice and a number name no location."""
        assert [*page.text_fields(Outer)] == ["path", "folder", "inner.address", "inner.ways"]


class TestAWay:
    """Each field, variable and setting that can name a location has a decision."""

    @pytest.mark.parametrize("section", ["spec", "environment", "log"])
    def test_a_new_field_without_a_decision_stops_the_page(self, section):
        """The author of the field must decide."""
        with pytest.raises(page.NoDecisionError, match=rf"planted has no decision in \[{section}\]"):
            page.ways(section, [*SECTIONS[section], "planted"])

    @pytest.mark.parametrize("section", ["spec", "environment", "log", "settings", "properties"])
    def test_a_decision_for_a_removed_field_stops_the_page(self, section):
        """Otherwise a renamed field would keep its old row."""
        first = page.decisions()[section]["ways"][0]["names"][0]

        with pytest.raises(page.NoDecisionError, match="has a decision, and does not exist"):
            page.ways(section, [name for name in SECTIONS[section] if name != first])

    def test_each_named_proof_is_an_existing_test(self):
        """Only some rows name a test."""
        proofs = [way["test"] for part in page.decisions().values() for way in part.get("ways", ()) if "test" in way]

        assert len(proofs) > 20
        for path, kind in (proof.split("::") for proof in proofs):
            assert re.search(rf"^class {kind}\b", (ROOT / path).read_text(), re.MULTILINE), (path, kind)
