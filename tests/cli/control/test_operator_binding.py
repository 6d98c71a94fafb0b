"""The control endpoint of a driver in a pod: the operator's attempt, its token, its certificate, and the termination message."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from backfill_api.status.ending import Ending
from backfill_api.status.progress import Progress
from backfill_core.errors import StateMismatchError
from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.events import CommandReceived
from backfill_core.protocol.receipt import TableReceipt, VnodeMismatch
from backfill_spark.control.operator_binding import OperatorBinding
from backfill_spark.driver import termination_message
from backfill_spark.driver.attempt import RunOutcome
from backfill_spark.settings import DriverSettings, InvalidSettingError


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    """A folder as in the mount of the Secret: certificate, key and token."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=driver",
               "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "tls.key", "-out", tmp_path / "tls.crt"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "token").write_text("secret\n")
    return tmp_path


def settings(folder: Path | None = None, **fields: Any) -> DriverSettings:
    """Return settings as the pod's variables configure them."""
    identity = {} if folder is None else {"control_tls_dir": folder, "control_token_file": folder / "token"}
    return DriverSettings.model_validate(identity | fields)


def binding(driver_settings: DriverSettings, submitted: list[CommandReceived], attempt: int = 3) -> OperatorBinding:
    """Return a binding whose driver has the state's third attempt."""
    return OperatorBinding(driver_settings, attempt=attempt, job_id="shop/orders", submit=submitted.append, progress=lambda: Progress(epoch=5), receipt=lambda: None)  # fmt: skip


def post(
    server: OperatorBinding, attempt: int, context: ssl.SSLContext | None, token: str = "secret"
) -> tuple[int, dict[str, Any]]:
    """Send a pause; return the answer."""
    body = json.dumps({"attempt": attempt, "revision": 1, "command": {"type": "Pause"}}).encode()
    request = urllib.request.Request(
        f"{server.url}/v1/command", body, {"Authorization": f"Bearer {token}"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class TestTheSeat:
    """The operator counts its attempts, and the target's state counts its own attempts."""

    def test_a_binding_answers_to_the_operators_attempt_and_submits_the_states(self, identity: Path) -> None:
        """It refuses a command for another attempt of the operator."""
        submitted: list[CommandReceived] = []
        server = binding(settings(identity, operator_attempt=7), submitted)
        context = ssl.create_default_context(cafile=str(identity / "tls.crt"))
        server.start()
        try:
            assert post(server, 3, context)[0] == 409
            assert post(server, 7, context)[1]["outcome"] == "Pending"
            assert [event.attempt for event in submitted] == [3]
            server.acknowledge(Acknowledge(3, 6, 1, "Applied"))
            status, answer = post(server, 7, context)
            assert (status, answer["attempt"], answer["epoch"], answer["revision"]) == (200, 7, 6, 1)
            assert (answer["outcome"], answer["type"]) == ("Applied", "Pause")
        finally:
            server.close()

    def test_a_command_needs_the_token(self, identity: Path) -> None:
        """The server uses TLS, for clients that trust exactly this certificate."""
        server = binding(settings(identity), [])
        server.start()
        try:
            assert post(server, 3, ssl.create_default_context(cafile=str(identity / "tls.crt")), "guess")[0] == 401
            with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
                post(server, 3, ssl.create_default_context())
        finally:
            server.close()

    def test_a_local_run_uses_loopback(self) -> None:
        """It has a generated token and the state's attempt."""
        server = binding(settings(), [])
        server.start()
        try:
            assert server.url.startswith("http://127.0.0.1:")
            assert (server.attempt, len(server.token) > 30) == (3, True)
            assert post(server, 3, None, server.token)[0] == 202
        finally:
            server.close()

    @pytest.mark.parametrize("missing", ["tls.key", "token"])
    def test_a_binding_without_its_identity_does_not_start(self, identity: Path, missing: str) -> None:
        """The error has a reason; it is not an unexpected one."""
        (identity / missing).unlink()

        with pytest.raises(InvalidSettingError, match="BACKFILL_CONTROL"):
            binding(settings(identity), [])

    def test_plain_http_is_refused_except_on_loopback(self) -> None:
        """A token must not travel through a network unencrypted."""
        with pytest.raises(InvalidSettingError, match="in the clear"):
            DriverSettings.from_environ({"HOME": "/x", "BACKFILL_CONTROL_BIND": "0.0.0.0"})


class TestLastWords:
    """The termination message outlives the process and the operator."""

    def test_the_message_describes_the_end_of_a_run(self, tmp_path: Path) -> None:
        """It contains the progress and the receipt in the format of the status."""
        receipt = TableReceipt(3, 4, 9, 100, 8, "ab", (VnodeMismatch(5, 1, 2),), 0.5, 1_700_000_000_000)
        outcome = RunOutcome("Failed", 48, "VerificationFailed", "they differ", "Look.", Progress(percent=100), receipt)
        place = tmp_path / "termination-log"

        termination_message.leave(settings(termination_log=place), termination_message.of_outcome(outcome))

        ending = Ending.read(place.read_text())
        assert ending is not None
        assert (ending.outcome, ending.reason, ending.message, ending.hint) == (
            "Failed",
            "VerificationFailed",
            "they differ",
            "Look.",
        )
        assert ending.progress is not None
        assert ending.receipt is not None
        assert (ending.progress.percent, ending.receipt.mismatches, ending.receipt.mismatched_vnodes) == (100, 1, (5,))
        assert ending.receipt.verified_at == "2023-11-14T22:13:20Z"

    def test_a_local_run_leaves_no_message(self) -> None:
        """There is no pod for it."""
        termination_message.leave(settings(), termination_message.of_error(StateMismatchError("no", hint="Yes.")))
