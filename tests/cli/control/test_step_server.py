"""The control server of a procedure: an operator sees its step, and can only stop it."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus

import pytest

from backfill_core.pacing import barrier_pulse
from backfill_core.pacing.barrier_pulse import BarrierMark, BarrierPulse
from backfill_core.pacing.java_pulse import GIVEN_UP_S, JavaPulse
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


@dataclass
class Watch:
    """The watch of a Java with this silence, beside a commit with that one."""

    pulse: JavaPulse
    commit: BarrierPulse

    @property
    def warnings(self):
        return self.pulse.warnings or self.commit.warnings


ANSWERS, HANGS = JavaPulse(), JavaPulse(silent_s=GIVEN_UP_S - 1)
HANGING_COMMIT = BarrierPulse(silent_s=barrier_pulse.GIVEN_UP_S - 1, mark=BarrierMark(1, 2))


def health(server):
    """Return the answer to the liveness probe."""
    url, _ = server.address
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


class TestAProcedureThatHangs:
    """A copy back after a switch-over runs for weeks. The operator replaces a driver with one of these warnings."""

    @pytest.mark.parametrize(
        ("watch", "code", "alive"),
        [
            (Watch(HANGS, BarrierPulse()), "JavaSilent", HTTPStatus.SERVICE_UNAVAILABLE),
            (Watch(ANSWERS, HANGING_COMMIT), "CommitStalled", HTTPStatus.OK),
        ],
        ids=["Java", "a commit"],
    )
    def test_is_reported_as_of_any_driver(self, watch, code, alive):
        """The step stays the one of the procedure."""
        with StepServer(SETTINGS, "shop/orders", StopSignal()) as server:
            server.starting("copying back")
            server.watch(watch)
            reported, probe = call(server, "/v1/progress"), health(server)
            watch.pulse, watch.commit = ANSWERS, BarrierPulse()
            again = call(server, "/v1/progress")

        assert (reported["warningCodes"], reported["reason"], probe) == ([code], "copying back", alive)
        assert len(reported["warnings"]) == 1
        assert (again["reason"], again.get("warningCodes", [])) == ("copying back", [])

    def test_a_procedure_without_a_watch_is_alive(self):
        """Only a copy back is watched."""
        with StepServer(SETTINGS, "shop/orders", StopSignal()) as server:
            assert health(server) == HTTPStatus.OK


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
