"""The planted bugs still fit the code: a bug whose place has moved would be planted nowhere, and be caught by chance."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace

import pytest
from support.repository import ROOT


def _page():
    spec = importlib.util.spec_from_file_location("planted_bugs", ROOT / "build-tools" / "planted_bugs.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted_bugs"] = module
    spec.loader.exec_module(module)
    return module


MUTANTS = _page().load()


class TestThePlantedBugs:
    """`make mutants` plants each of them; here only what is cheap to know."""

    @pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
    def test_fits_the_code_and_names_a_test(self, mutant):
        """Its text stands in its file once, and its test is there."""
        assert mutant.misfits(ROOT) is None

    def test_are_enough_of_each_area(self):
        """A suite that proves one area says nothing about the others."""
        areas = {mutant.area for mutant in MUTANTS}

        assert len(MUTANTS) >= 25
        assert {"arrangement", "job", "operator", "pacing", "rearranged_chain", "rows", "snapshot"} <= areas

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"old": "text that is not there"}, "0 times"),
            ({"old": "return"}, "times in"),
            ({"new": None}, "changes nothing"),
            ({"test": "tests/core/job/test_job.py::TestNoSuchThing"}, "TestNoSuchThing"),
            ({"test": "tests/core/no_such_file.py::TestOne"}, "no_such_file"),
        ],
    )
    def test_one_that_has_moved_is_named(self, change, words):
        """With what is wrong, so that the record is mended and not deleted."""
        one = MUTANTS[0]
        moved = replace(one, **{name: one.old if value is None else value for name, value in change.items()})

        assert words in (moved.misfits(ROOT) or "")
