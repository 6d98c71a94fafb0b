"""The control server of a procedure: an operator sees its step, and can only stop it."""

import json
import urllib.request

import pytest

from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.procedures.step_server import StepServer, without_operator
from backfill_spark.settings import DriverSettings

SETTINGS = DriverSettings(operator_attempt=7, mode="switch")


def call(server, path, body=None):
    """Return the answer of a server to its operator."""
    url, token = server.address
    data = None if body is None else json.dumps({"attempt": 7, "revision": 1, "command": body}).encode()
    request = urllib.request.Request(f"{url}{path}", data, {"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


class TestTheServerOfAProcedure:
    """The operator treats its attempt like any other."""

    def test_reports_the_step_and_stops_on_request(self):
        """The number of the attempt is the operator's."""
        stop = StopSignal()
        with StepServer(SETTINGS, "shop/orders", stop) as server:
            server.starting("Draining")

            assert call(server, "/v1/progress")["reason"] == "Draining"
            answer = call(server, "/v1/command", {"type": "Stop"})

        assert (answer["attempt"], answer["outcome"]) == (7, "Applied")
        assert stop.requested

    @pytest.mark.parametrize("command", ["Pause", "Verify"])
    def test_refuses_every_other_command(self, command):
        """A paused switch-over would refuse writes for as long."""
        stop = StopSignal()
        with StepServer(SETTINGS, "shop/orders", stop) as server:
            answer = call(server, "/v1/command", {"type": command})

        assert (answer["outcome"], stop.requested) == ("Refused", False)
        assert "takes no command but Stop" in answer["message"]

    def test_driver_inside_a_procedure_has_no_operator(self, tmp_path):
        """Two servers cannot have one port, and only the procedure reports an end."""
        settings = SETTINGS.model_copy(update={"control_port": 4040, "termination_log": tmp_path / "log"})

        inside = without_operator(settings)

        assert (inside.control_port, inside.operator_attempt, inside.termination_log, inside.mode) == (
            0,
            None,
            None,
            "run",
        )
