"""Steps of the lifecycle never call steps: only `decide` determines which step follows which."""

import ast

import pytest
from support.repository import CORE, name

STEPS = CORE / "lifecycle" / "steps"
PACKAGE = "backfill_core.lifecycle.steps"
SHARED = "step"
DISPATCHER = "backfill_core.lifecycle.decide"


def step_modules_used(path):
    """Return the step modules, and the dispatcher, that a file imports at any depth; the shared values are left out."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = PACKAGE.split(".")[: len(PACKAGE.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            modules |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    steps = {module.removeprefix(f"{PACKAGE}.").split(".")[0] for module in modules if module.startswith(f"{PACKAGE}.")}
    return (steps - {SHARED}) | {module for module in modules if f"{module}.".startswith(f"{DISPATCHER}.")}


PLANTED = {
    "a function": f"from {PACKAGE}.idle import reconcile_idle\n",
    "a module": f"from {PACKAGE} import idle\n",
    "a whole module": f"import {PACKAGE}.idle\n",
    "a neighbour": "from . import idle\n",
    "a neighbour's function": "from .idle import reconcile_idle\n",
    "hidden in a function": f"def late():\n    from {PACKAGE}.idle import reconcile_idle\n",
    "the dispatcher": f"from {DISPATCHER} import dispatch\n",
    "the dispatcher's module": "from backfill_core.lifecycle import decide\n",
}


class TestStepsNeverCallSteps:
    """Steps that call steps would spread one situation over several modules, and nothing would bound their calls."""

    @pytest.mark.parametrize("path", sorted(STEPS.glob("*.py")), ids=name)
    def test_a_step_imports_the_shared_values_only(self, path):
        """A step cannot call what it cannot import."""
        assert step_modules_used(path) == set()

    @pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED.keys())
    def test_a_planted_import_is_caught(self, text, tmp_path):
        """The test covers every form of import in Python."""
        file = tmp_path / "planted.py"
        file.write_text(text)

        assert step_modules_used(file) != set()

    def test_the_shared_values_are_allowed(self, tmp_path):
        """Developers switch off a rule that forbids everything."""
        file = tmp_path / "planted.py"
        file.write_text(
            f"from {PACKAGE}.step import Ended, StepResult\nfrom backfill_core.lifecycle.actions import Action\n"
        )

        assert step_modules_used(file) == set()
