"""A start has no Warning events: its probe waits for the driver instead of failing until it is there (fault K15)."""

from __future__ import annotations

import os
import socket
import subprocess
import time

import pytest
from support.operators.observations import spec

from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import CONTROL_PORT, STARTUP_TRY_S, driver_pod
from backfill_spark.control.server import READY_WAIT_S

LIMIT_S = 30


def probes(**fields):
    """Return the probes of a driver."""
    pod = driver_pod(Launch("shop", "orders", "0b5a-uid", 1, "Run", spec(**fields), Installation("backfill:1")))
    driver = pod["spec"]["containers"][0]
    return {name: driver[name] for name in ("startupProbe", "readinessProbe", "livenessProbe")}


@pytest.fixture
def place():
    """An address that nothing listens at yet."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        yield listening


def start(place, tries_s=STARTUP_TRY_S):
    """Run the command of the probe as a kubelet does, for another port."""
    *words, script = probes()["startupProbe"]["exec"]["command"]
    port = str(place.getsockname()[1])
    assert script.count(f"/{CONTROL_PORT})") == script.count(f"-lt {STARTUP_TRY_S} ") == 1
    script = script.replace(f"/{CONTROL_PORT})", f"/{port})").replace(f"-lt {STARTUP_TRY_S} ", f"-lt {tries_s} ")
    return subprocess.Popen(
        [*words, script],
        env={"PATH": os.environ["PATH"], "BACKFILL_CONTROL_BIND": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until_it_waits(probe):
    """Wait until the probe has found nothing, and sleeps."""
    deadline_s = time.monotonic() + LIMIT_S
    while (
        "sleep"
        not in subprocess.run(
            ["ps", "-o", "comm=", "--ppid", str(probe.pid)], capture_output=True, text=True, check=False
        ).stdout
    ):
        assert time.monotonic() < deadline_s
        assert probe.poll() is None


class TestTheStartupProbe:
    """It succeeds as soon as the driver listens, and fails only after most of a minute."""

    def test_probe_waits_for_the_driver_and_then_succeeds(self, place):
        """A kubelet gets one answer, which is yes."""
        with start(place) as probe:
            until_it_waits(probe)
            place.listen()
            said, _ = probe.communicate(timeout=LIMIT_S)

        assert (probe.returncode, said) == (0, "")

    def test_probe_without_a_driver_fails_by_itself(self, place):
        """A kubelet that gives up waiting may leave the process behind."""
        with start(place, tries_s=1) as probe:
            said, _ = probe.communicate(timeout=LIMIT_S)

        assert (probe.returncode, said) == (1, "")

    def test_kubelet_waits_longer_than_the_probe(self):
        """And longer for a first commit than the server holds its answer."""
        assert probes()["startupProbe"]["timeoutSeconds"] > STARTUP_TRY_S + 1
        assert probes()["readinessProbe"]["timeoutSeconds"] > READY_WAIT_S + 1

    @pytest.mark.parametrize("seconds", [1, 600, 3600])
    def test_kubelet_gives_up_later_than_the_operator(self, seconds):
        """The operator knows why a driver is late, and a kubelet does not."""
        probe = probes(startupTimeoutSeconds=seconds)["startupProbe"]

        assert probe["failureThreshold"] * STARTUP_TRY_S > seconds
