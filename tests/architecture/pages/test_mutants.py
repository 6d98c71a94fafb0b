"""The planted bugs still fit the code: a bug whose location has moved could not be planted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.repository import ROOT, program

MUTANTS = program("planted_bugs").load()


class TestThePlantedBugs:
    """`make mutants` plants each bug; these tests check only what is cheap."""

    @pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
    def test_a_bug_fits_the_code_and_names_a_test(self, mutant):
        """Its quoted code occurs once in its file, and its test exists."""
        assert mutant.misfits(ROOT) is None

    def test_each_area_has_enough_bugs(self):
        """A suite that proves one area proves nothing about the others."""
        areas = {mutant.area for mutant in MUTANTS}

        assert len(MUTANTS) >= 25
        assert {"arrangement", "job", "operator", "pacing", "rearranged_chain", "rows", "snapshot"} <= areas

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"old": "a string that does not exist"}, "0 times"),
            ({"old": "return"}, "times in"),
            ({"new": None}, "changes nothing"),
            ({"test": "tests/core/job/test_job.py::TestNoSuchThing"}, "TestNoSuchThing"),
            ({"test": "tests/core/no_such_file.py::TestOne"}, "no_such_file"),
        ],
    )
    def test_a_bug_that_no_longer_fits_is_named(self, change, message):
        """The message contains the cause, so that a developer fixes the record and does not delete it."""
        mutant = MUTANTS[0]
        moved = replace(mutant, **{name: mutant.old if value is None else value for name, value in change.items()})

        assert message in (moved.misfits(ROOT) or "")
