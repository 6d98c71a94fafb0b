"""Where a driver in a pod is commanded from: the operator's number, its token, its certificate, and its termination message."""

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
from backfill_core.protocol.receipt import Receipt, VnodeMismatch
from backfill_spark.control.operator_binding import OperatorBinding
from backfill_spark.driver import termination_message
from backfill_spark.driver.attempt import RunOutcome
from backfill_spark.settings import DriverSettings, InvalidSettingError


@pytest.fixture
def identity(tmp_path: Path) -> Path:
    """A folder as the Secret's mount: certificate, key and token."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=driver",
               "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "tls.key", "-out", tmp_path / "tls.crt"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "token").write_text("secret\n")
    return tmp_path


def settings(folder: Path | None = None, **fields: Any) -> DriverSettings:
    """Return what the pod's variables would say."""
    given = {} if folder is None else {"control_tls_dir": folder, "control_token_file": folder / "token"}
    return DriverSettings.model_validate(given | fields)


def binding(given: DriverSettings, submitted: list[CommandReceived], attempt: int = 3) -> OperatorBinding:
    """Return a binding whose driver has the state's third attempt."""
    return OperatorBinding(given, attempt=attempt, job_id="shop/orders", submit=submitted.append, progress=lambda: Progress(epoch=5), receipt=lambda: None)  # fmt: skip


def post(
    one: OperatorBinding, attempt: int, context: ssl.SSLContext | None, token: str = "secret"
) -> tuple[int, dict[str, Any]]:
    """Send a pause; return the answer."""
    body = json.dumps({"attempt": attempt, "revision": 1, "command": {"type": "Pause"}}).encode()
    request = urllib.request.Request(f"{one.url}/v1/command", body, {"Authorization": f"Bearer {token}"}, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class TestTheSeat:
    """The operator counts its attempts, the target's state counts its own."""

    def test_answers_to_the_operators_number_and_speaks_with_the_states(self, identity: Path) -> None:
        """A command for another attempt of the operator's is refused."""
        submitted: list[CommandReceived] = []
        one = binding(settings(identity, operator_attempt=7), submitted)
        context = ssl.create_default_context(cafile=str(identity / "tls.crt"))
        one.start()
        try:
            assert post(one, 3, context)[0] == 409
            assert post(one, 7, context)[1]["outcome"] == "Pending"
            assert [event.attempt for event in submitted] == [3]
            one.acknowledge(Acknowledge(3, 6, 1, "Applied"))
            assert post(one, 7, context) == (
                200,
                {"attempt": 7, "epoch": 6, "revision": 1, "outcome": "Applied", "message": ""},
            )
        finally:
            one.close()

    def test_is_commanded_with_its_token_only(self, identity: Path) -> None:
        """Over TLS, to clients that trust this very certificate."""
        one = binding(settings(identity), [])
        one.start()
        try:
            assert post(one, 3, ssl.create_default_context(cafile=str(identity / "tls.crt")), "guess")[0] == 401
            with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
                post(one, 3, ssl.create_default_context())
        finally:
            one.close()

    def test_of_a_local_run_is_as_before(self) -> None:
        """Loopback, a token of its own, the state's number."""
        one = binding(settings(), [])
        one.start()
        try:
            assert one.url.startswith("http://127.0.0.1:")
            assert (one.attempt, len(one.token) > 30) == (3, True)
            assert post(one, 3, None, one.token)[0] == 202
        finally:
            one.close()

    @pytest.mark.parametrize("missing", ["tls.key", "token"])
    def test_without_its_identity_does_not_start(self, identity: Path, missing: str) -> None:
        """An error with a reason, not an unexpected one."""
        (identity / missing).unlink()

        with pytest.raises(InvalidSettingError, match="BACKFILL_CONTROL"):
            binding(settings(identity), [])

    def test_in_the_clear_is_refused_anywhere_but_on_loopback(self) -> None:
        """A token must not travel through a network as it is."""
        with pytest.raises(InvalidSettingError, match="in the clear"):
            DriverSettings.from_environ({"HOME": "/x", "BACKFILL_CONTROL_BIND": "0.0.0.0"})


class TestLastWords:
    """They outlive the process and the operator alike."""

    def test_say_how_a_run_ended(self, tmp_path: Path) -> None:
        """With the progress and the receipt in the form that the status keeps."""
        receipt = Receipt(3, 4, 9, 100, 8, "ab", (VnodeMismatch(5, 1, 2),), 0.5, 1_700_000_000_000)
        outcome = RunOutcome("Failed", 48, "VerificationFailed", "they differ", "Look.", Progress(percent=100), receipt)
        place = tmp_path / "termination-log"

        termination_message.leave(settings(termination_log=place), termination_message.of_outcome(outcome))

        read = Ending.read(place.read_text())
        assert read is not None
        assert (read.outcome, read.reason, read.message, read.hint) == (
            "Failed",
            "VerificationFailed",
            "they differ",
            "Look.",
        )
        assert read.progress is not None
        assert read.receipt is not None
        assert (read.progress.percent, read.receipt.mismatches, read.receipt.mismatched_vnodes) == (100, 1, (5,))
        assert read.receipt.verified_at == "2023-11-14T22:13:20Z"

    def test_of_a_local_run_go_nowhere(self) -> None:
        """There is no pod to leave them in."""
        termination_message.leave(settings(), termination_message.of_error(StateMismatchError("no", hint="Yes.")))
