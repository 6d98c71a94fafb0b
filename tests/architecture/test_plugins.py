"""A strategy, a source or a sink is a folder that explains itself and is reached by a suite."""

import re

import pytest
from support.house import CORE, ROOT, SPARK, name, plugins

TESTS = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.parent.name != "architecture"}


@pytest.mark.parametrize("folder", plugins(), ids=name)
class TestAPluginIsAFolder:
    """Nothing else is edited by hand when one is added."""

    def test_it_explains_itself(self, folder):
        """When to use it, its promise, its cost."""
        assert re.search("when to use it.*promise.*cost", (folder / "README.md").read_text().lower(), flags=re.DOTALL)

    def test_it_is_reached_by_a_suite(self, folder):
        """Tests name its module; one that none names is untested, whatever the coverage says."""
        module = ".".join(folder.relative_to(ROOT / "spark_app").parts)

        assert [path for path, text in TESTS.items() if module in text] != []


class TestTheKinds:
    """The suite above looks at what there is; this one sees that it looks at all."""

    @pytest.mark.parametrize("kind", [CORE / "strategies", SPARK / "sources", SPARK / "sinks"], ids=name)
    def test_there_is_at_least_one_of_each(self, kind):
        """A moved folder would make the suite above pass on nothing."""
        assert any(folder.parent == kind for folder in plugins())

    def test_a_strategy_has_params(self):
        """What a user may set is in one file of its folder."""
        strategies = [folder for folder in plugins() if folder.parent == CORE / "strategies"]

        assert [name(folder) for folder in strategies if not (folder / "params.py").exists()] == []
