"""Each dashboard of the chart is valid by Grafana's own schema, with its panels, options and queries."""

import json

import pytest
from support.monitoring.grafana import NoSchemaError, problems, schema_program
from support.monitoring.queries import DASHBOARDS, FOLDER


@pytest.fixture(scope="module", autouse=True)
def program():
    """Compile the program before the first test; the run fails with the reason if that is not possible."""
    try:
        return schema_program()
    except NoSchemaError as none:
        pytest.fail(str(none), pytrace=False)


class TestADashboard:
    """Grafana replaces what it does not know by a default of its version, and shows another picture."""

    @pytest.mark.parametrize("name", sorted(DASHBOARDS))
    def test_dashboard_fits_the_schema(self, name):
        """Unknown fields, wrong types and missing options are errors."""
        assert problems(FOLDER / f"{name}.json") == ""

    @pytest.mark.parametrize("change", ["misspelt option", "missing option", "number as text"])
    def test_schema_refuses_a_wrong_panel(self, change, tmp_path):
        """A check that accepts everything proves nothing."""
        board = json.loads(json.dumps(DASHBOARDS["fleet"]))
        panel = board["panels"][0]
        match change:
            case "misspelt option":
                panel["options"]["colourMode"] = "none"
            case "missing option":
                del panel["options"]["reduceOptions"]
            case _:
                panel["gridPos"]["w"] = "4"
        file = tmp_path / "fleet.json"
        file.write_text(json.dumps(board))

        assert "panels[0]" in problems(file)
