"""Names on which users depend stay: fields, reasons, exit codes, metrics, keys of messages, annotations, variables."""

import subprocess
import sys

import pytest
from support.repository import ROOT

PROGRAM = ROOT / "build-tools" / "public_names.py"
LIST = ROOT / "tests" / "architecture" / "public_names.txt"


@pytest.fixture(scope="module")
def in_code():
    """The names that the code has now."""
    done = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


@pytest.fixture(scope="module")
def listed():
    """The names that are promised."""
    return set(LIST.read_text().splitlines())


class TestPublicNames:
    """A renamed metric empties a dashboard, and a renamed reason breaks a script."""

    def test_each_listed_name_is_in_the_code(self, listed, in_code):
        """The list was taken from the code before the prose of the project was rewritten."""
        assert listed - in_code == set(), "keep these names: users depend on them"

    def test_each_name_of_the_code_is_listed(self, listed, in_code):
        """A name that is not in the list could be renamed unnoticed later."""
        command = f"python build-tools/{PROGRAM.name} > tests/architecture/{LIST.name}"

        assert in_code - listed == set(), f"add these by `{command}`"
