"""Subjects of commits follow one rule, so that a reader finds an area in the history."""

import subprocess
import sys

import pytest
from support.repository import ROOT, program

PROGRAM = ROOT / "build-tools" / "commit_subjects.py"


@pytest.fixture
def commit_subjects():
    """The program as a module."""
    return program("commit_subjects")


class TestASubject:
    """A subject names an area and describes the change."""

    @pytest.mark.parametrize(
        "subject",
        [
            "core: resume a split from its last segment",
            "docs: embed the picture of a run",
            "driver, operator: hold one suite of limits",
            "Merge branch 'main' into release",
            'Revert "core: resume a split"',
            f"core: add {'x' * 62}",
        ],
    )
    def test_a_subject_that_follows_the_rule_is_accepted(self, commit_subjects, subject):
        """Git writes the subjects of merges and of reverts."""
        assert commit_subjects.fault(subject) is None

    @pytest.mark.parametrize(
        ("subject", "reason"),
        [
            (f"core: add {'x' * 63}", "has 73 characters"),
            ("resume a split from its last segment", "AREA"),
            ("Core: resume a split", "AREA"),
            ("kernel: resume a split", "AREA"),
            ("core: Resume a split", "AREA"),
            ("core: resume a split.", "AREA"),
            ("core: resumed a split", "'resumed'"),
            ("core: fixes a split", "'fixes'"),
            ("", "AREA"),
        ],
    )
    def test_a_subject_that_breaks_the_rule_is_refused_with_the_reason(self, commit_subjects, subject, reason):
        """The reason names the limit, the areas or the verb."""
        assert reason in commit_subjects.fault(subject)


class TestTheProgram:
    """The program checks the history of a clone, or one message."""

    def test_the_program_checks_the_first_line_of_a_message(self, tmp_path):
        """A git hook calls it like this."""
        message = tmp_path / "COMMIT_EDITMSG"
        message.write_text("core: resume a split\n\nIt resumed nothing before.\n")
        assert self.run(message).returncode == 0

        message.write_text("Resumed a split\n")
        done = self.run(message)
        assert done.returncode == 1
        assert "commit subject 'Resumed a split' must be" in done.stderr

    def test_the_history_of_this_clone_follows_the_rule(self):
        """The check begins at the commit in the program."""
        assert self.run().stderr == ""

    @staticmethod
    def run(*arguments):
        return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, check=False)
