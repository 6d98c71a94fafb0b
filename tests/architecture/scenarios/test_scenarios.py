"""Scenarios run only with a real node; these tests check without one that no example is left out, and how figures are
judged."""

import importlib.util

import pytest
from support.node import figures
from support.node.figures import BARS, Figures, nearest_rank
from support.node.real_node import EXPECTED, WARNING
from support.repository import ROOT

SCENARIOS = {path.name: path.read_text() for path in (ROOT / "tests" / "e2e").glob("test_*.py")}
STARTED = "driver pod created -> first rows committed"
FOUND = f"{STARTED} s"
BAR = BARS[FOUND].most


def loaded(file):
    """Load a file of scenarios without running it."""
    spec = importlib.util.spec_from_file_location(file, ROOT / "tests" / "e2e" / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestExamples:
    """Each example of the project runs in a scenario."""

    def test_each_example_is_run_by_a_scenario(self):
        """An example that was missing in the list ran nowhere, although a page claimed that all run."""
        examples = loaded("test_examples.py")
        other_scenarios = "".join(text for name, text in SCENARIOS.items() if name != "test_examples.py")

        lost = [file for file in examples.ELSEWHERE if f'example("{file}")' not in other_scenarios]

        assert lost == []
        assert {*examples.FILES, *examples.ELSEWHERE} == {path.name for path in (ROOT / "examples").glob("*.yaml")}


class TestFigures:
    """Figures are compared with their bars, and only a broken product fails a scenario."""

    def test_each_bar_belongs_to_a_figure(self):
        """A figure with a changed name would no longer be judged."""
        written = "".join(SCENARIOS.values()) + (ROOT / "tests" / "e2e" / "conftest.py").read_text()

        assert [name for name in BARS if f'figures["{name}"]' not in written] == []

    @pytest.mark.parametrize(
        ("seconds", "verdict"),
        [(BAR, "met"), (BAR + 0.1, "MISSED"), (None, "not measured")],
        ids=["met", "missed", "none"],
    )
    def test_figures_are_printed_with_their_bar(self, seconds, verdict):
        """A missed bar is printed and fails no test."""
        measured = Figures(1)
        if seconds is not None:
            measured[FOUND] = seconds

        [line] = [printed for printed in measured.lines() if printed.startswith(f"{FOUND} ")]

        assert line.endswith(verdict)
        assert f" {BAR:g} " in line
        assert measured.broken() == []

    def test_figures_of_two_executors_are_printed_with_an_excuse(self):
        """The executors start on the same cores."""
        measured = Figures(1)
        measured[f"{STARTED}, two executors s"] = BAR + 5

        [line] = [printed for printed in measured.lines() if "missed" in printed]

        assert line.endswith(figures.EXECUTORS)

    def test_figures_of_a_broken_product_fail_once(self):
        """A slow machine does not explain many times the bar, and a slow machine gets more time."""
        quick, slow = Figures(1), Figures(2)
        for measured in (quick, slow):
            measured[FOUND] = BAR * figures.BROKEN + 1

        assert [FOUND in failure for failure in quick.broken()] == [True]
        assert quick.broken() == []
        assert slow.broken() == []

    def test_the_99th_percentile_of_few_commands_is_the_slowest(self):
        """No slow command is left out."""
        assert nearest_rank(range(24), 99) == 23
        assert nearest_rank(range(200), 99) == 197
        assert nearest_rank([3, 1, 2], 50) == 2


class TestWarnings:
    """kubectl and helm succeed despite warnings, and print them where users overlook them."""

    @pytest.mark.parametrize(
        "warning",
        [
            'Warning: would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
            'W1125 00:24:13.870000   4711 warnings.go:70] would violate PodSecurity "restricted:latest": runAsNonRoot != true',
            'Warning: unknown field "spec.nonsense"',
        ],
    )
    def test_warnings_are_found(self, warning):
        """They may be in the middle of other output."""
        assert WARNING.findall(f"something\n{warning}\nsomething else") == [warning]

    def test_expected_warnings_are_left_out(self):
        """A scenario kills a pod without a grace period."""
        warning = (
            "Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated."
        )

        assert any(expected in warning for expected in EXPECTED)

    def test_a_mention_of_a_warning_is_no_warning(self):
        """The word may be the type of an event, or part of a message."""
        assert WARNING.findall("LAST SEEN  TYPE  REASON\n1s Warning BackOff\nmessage: Warning: x") == []
