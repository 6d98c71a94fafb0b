"""Scenarios on a real node run where there is one; what they leave out, and how they judge their figures, is seen without."""

import importlib.util

import pytest
from support.node import figures
from support.node.figures import BARS, Figures, nearest_rank
from support.node.real_node import EXPECTED, WARNING
from support.repository import ROOT

SCENARIOS = {one.name: one.read_text() for one in (ROOT / "tests" / "e2e").glob("test_*.py")}
STARTED = "driver pod created -> first rows committed"
FOUND = f"{STARTED} s"
BAR = BARS[FOUND].most


def loaded(file):
    """Load a file of scenarios; nothing of it runs."""
    spec = importlib.util.spec_from_file_location(file, ROOT / "tests" / "e2e" / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestExamples:
    def test_each_is_run_by_a_scenario(self):
        """One that was left out of the list of all was run nowhere, and a page said that each is."""
        examples = loaded("test_examples.py")
        others = "".join(text for name, text in SCENARIOS.items() if name != "test_examples.py")

        lost = [file for file in examples.ELSEWHERE if f'example("{file}")' not in others]

        assert lost == []
        assert {*examples.FILES, *examples.ELSEWHERE} == {one.name for one in (ROOT / "examples").glob("*.yaml")}


class TestFigures:
    def test_each_bar_is_that_of_a_figure(self):
        """A figure whose name was changed would be judged no more."""
        written = "".join(SCENARIOS.values()) + (ROOT / "tests" / "e2e" / "conftest.py").read_text()

        assert [name for name in BARS if f'figures["{name}"]' not in written] == []

    @pytest.mark.parametrize(
        ("found", "said"), [(BAR, "met"), (BAR + 0.1, "MISSED"), (None, "not measured")], ids=["met", "missed", "none"]
    )
    def test_are_told_beside_their_bar(self, found, said):
        """A missed bar is told, and fails nothing."""
        measured = Figures(1)
        if found is not None:
            measured[FOUND] = found

        [line] = [one for one in measured.lines() if one.startswith(f"{FOUND} ")]

        assert line.endswith(said)
        assert f" {BAR:g} " in line
        assert measured.broken() == []

    def test_of_two_executors_are_told_with_an_excuse(self):
        """They start on the same cores."""
        measured = Figures(1)
        measured[f"{STARTED}, two executors s"] = BAR + 5

        [line] = [one for one in measured.lines() if "missed" in one]

        assert line.endswith(figures.EXECUTORS)

    def test_of_a_broken_product_fail_once(self):
        """Many times the bar is no slow machine; and a slow one is given more."""
        quick, slow = Figures(1), Figures(2)
        for measured in (quick, slow):
            measured[FOUND] = BAR * figures.BROKEN + 1

        assert [FOUND in one for one in quick.broken()] == [True]
        assert quick.broken() == []
        assert slow.broken() == []

    def test_of_few_commands_the_99th_percentile_is_the_slowest(self):
        """So no slow one is left out."""
        assert nearest_rank(range(24), 99) == 23
        assert nearest_rank(range(200), 99) == 197
        assert nearest_rank([3, 1, 2], 50) == 2


class TestWarnings:
    """kubectl and helm succeed all the same, and say them where no one looks."""

    @pytest.mark.parametrize(
        "said",
        [
            'Warning: would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
            'W1125 00:24:13.870000   4711 warnings.go:70] would violate PodSecurity "restricted:latest": runAsNonRoot != true',
            'Warning: unknown field "spec.nonsense"',
        ],
    )
    def test_are_found(self, said):
        """In the middle of what else is said."""
        assert WARNING.findall(f"something\n{said}\nsomething else") == [said]

    def test_that_are_expected_are_left_out(self):
        """A pod that a scenario kills without grace."""
        said = (
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated."
        )

        assert any(one in said for one in EXPECTED)

    def test_are_not_what_kubectl_merely_mentions(self):
        """An event's type, and a message with the word in it."""
        assert WARNING.findall("LAST SEEN  TYPE  REASON\n1s Warning BackOff\nmessage: Warning: x") == []
