"""Authorisation, requests and answers of the control server, and of its double in the operator's tests."""

import http.client
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from urllib.parse import urlsplit

import pytest
from support.drivers.driver_double import DoubleInAThread
from support.drivers.fake_driver import ScriptedJob

from backfill_core.protocol.actions import Acknowledge
from backfill_core.protocol.commands import Pause, Throttle
from backfill_spark.control import server
from backfill_spark.control.server import ACKS_KEPT_MAX, BODY_MAX_BYTES

BUSY_S = 30.0
"""A step of a test takes less, also on a busy machine."""


@pytest.fixture(params=[ScriptedJob, DoubleInAThread], ids=["real", "double"])
def driver(request):
    return request.param


@pytest.fixture
def job(driver):
    with driver() as scripted:
        yield scripted


@pytest.fixture
def silent(driver):
    with driver(silent=True) as scripted:
        yield scripted


def ask(job, method, path, body=None, *, token=None, headers=None):
    """Return the status and the decoded body of one request."""
    parts = urlsplit(job.server.url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=2 * BUSY_S)
    sent = {"Authorization": f"Bearer {job.token if token is None else token}", **(headers or {})}
    payload = json.dumps(body).encode() if isinstance(body, dict) else body
    connection.request(method, path, payload, {name: value for name, value in sent.items() if value})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    kind = answer.headers.get("Content-Type", "")
    return answer.status, json.loads(text) if "json" in kind else text


def request(revision, kind="Pause", attempt=1, **members):
    return {"attempt": attempt, "revision": revision, "command": {"type": kind, **members}}


def command(job, body, wait="30"):
    return ask(job, "POST", f"/v1/command?wait={wait}", body)


class TestOnlyWhoHasTheTokenIsHeard:
    @pytest.mark.parametrize("token", ["", "wrong", "x" * 10_000], ids=["none", "wrong", "long"])
    @pytest.mark.parametrize("path", ["/v1/progress", "/v1/receipt", "/v1/acks", "/metrics", "/v1/nothing"])
    def test_reads_without_the_token_are_refused(self, job, token, path):
        """Progress contains table names, and on a shared machine only the token protects them."""
        headers = {"Authorization": ""} if not token else None
        assert ask(job, "GET", path, token=token, headers=headers)[0] == 401

    def test_commands_without_the_token_are_not_submitted(self, job):
        """An unauthorised command must not reach the core."""
        status, _ = ask(job, "POST", "/v1/command?wait=0", request(1), token="wrong")
        assert status == 401
        assert job.commands.empty()
        assert job.seen == []

    def test_a_prefix_of_the_token_is_refused(self, job):
        """A comparison of prefixes would let a client guess a token letter by letter."""
        assert ask(job, "GET", "/v1/progress", token=job.token[:-1])[0] == 401

    def test_probes_need_no_token(self, job):
        """A kubelet has no token."""
        assert ask(job, "GET", "/healthz", token="", headers={"Authorization": ""})[0] == 200
        assert ask(job, "GET", "/readyz", token="", headers={"Authorization": ""})[0] == 200


class TestBadRequestsSayWhichField:
    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({**request(1), "colour": "red"}, "colour"),
            (request(1, pause={"scope": "Some"}), "command.pause.scope"),
            (request(1, pause={"force": "yes"}), "command.pause.force"),
            (request(1, kind="Throttle", throttle={"rowsPerSecond": -5}), "command.throttle.rowsPerSecond"),
            (request(1, kind="Throttle"), "command.throttle"),
            (request(1, kind="Resume", stop={"force": True}), "command.stop"),
            ({"attempt": 1, "command": {"type": "Resume"}}, "revision"),
            (request("1"), "revision"),
            (request(0), "revision"),
            (request(1, kind="Explode"), "command.type"),
        ],
    )
    def test_wrong_fields_are_named(self, job, body, field):
        """The sender must fix the field at this path."""
        status, answer = command(job, body)
        assert (status, answer["error"]["field"]) == (400, field)
        assert job.seen == []

    @pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
    def test_a_body_without_a_request_is_refused(self, job, body):
        """Any bytes may arrive at a port."""
        assert ask(job, "POST", "/v1/command", body)[0] == 400

    @pytest.mark.parametrize("wait", ["soon", "-1", "nan", "inf"])
    def test_a_wait_that_is_no_time_is_refused(self, job, wait):
        """No comparison with NaN is true: a wait for it would never end."""
        status, answer = command(job, request(1), wait)
        assert (status, answer["error"]["field"]) == (400, "wait")

    def test_a_body_above_the_cap_is_not_read(self, job):
        """The driver's memory is for data."""
        assert ask(job, "POST", "/v1/command", b"x" * (BODY_MAX_BYTES + 1))[0] == 413

    @pytest.mark.parametrize("length", ["-1", "many", "9" * 40])
    def test_a_wrong_length_is_refused(self, job, length):
        """The sender sets the length, so it may be any string."""
        assert ask(job, "POST", "/v1/command", b"{}", headers={"Content-Length": length})[0] == 413

    def test_unknown_paths_are_refused(self, job):
        """A typing error must not get an answer."""
        assert ask(job, "GET", "/v1/nothing")[0] == 404
        assert ask(job, "POST", "/v1/nothing", request(1))[0] == 404


def until_taken(job):
    """Wait until the job took a command at a barrier."""
    while not job.seen:
        assert job.stopped.wait(0.005) is False


class TestACommandIsAcknowledgedAfterItsSeal:
    def test_the_ack_carries_attempt_epoch_and_revision(self, job):
        """A user must know from which barrier on a command is in force."""
        status, ack = command(job, request(1, pause={"scope": "All", "force": True}))
        assert status == 200
        assert (ack["attempt"], ack["revision"], ack["outcome"]) == (1, 1, "Applied")
        assert 1 < ack["epoch"] <= job.progress.epoch
        assert job.seen[0].command == Pause(everything=True, force=True)

    def test_a_command_without_an_ack_is_pending(self, silent):
        """A time-out is no refusal: the driver has the command."""
        status, ack = command(silent, request(1), wait="0.05")
        assert (status, ack["outcome"]) == (202, "Pending")

    def test_a_repeated_request_waits_for_the_same_command(self, silent):
        """A re-sent command must not be applied twice."""
        command(silent, request(1), wait="0")
        with ThreadPoolExecutor(1) as pool:
            again = pool.submit(command, silent, request(1), "10")
            until_taken(silent)
            silent.server.acknowledge(Acknowledge(1, 7, 1, "Applied"))
            status, ack = again.result()
        assert (status, ack["epoch"], len(silent.seen)) == (200, 7, 1)

    def test_a_closing_server_answers_waiting_clients(self, silent):
        """A driver that ends must not leave a client waiting for a minute."""
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(command, silent, request(1), "30")
            until_taken(silent)
            silent.server.close()
            assert waiting.result(timeout=BUSY_S)[1]["outcome"] == "Pending"

    def test_acks_can_be_read_later(self, job):
        """A client that lost the answer can still read it."""
        for revision in (1, 2, 3):
            command(job, request(revision, kind="Resume"))
        status, answer = ask(job, "GET", "/v1/acks?after=1")
        assert (status, answer["attempt"], [ack["revision"] for ack in answer["acks"]]) == (200, 1, [2, 3])
        assert ask(job, "GET", "/v1/acks?after=x")[0] == 400

    def test_acks_name_their_command_its_time_and_its_latency(self, job):
        """A screen shows `pause`, and not `revision 3`; a command from the start of the driver has only its number."""
        command(job, request(1, kind="Resume"))
        job.server.acknowledge(Acknowledge(1, 2, 2, "Applied"))

        _, answer = ask(job, "GET", "/v1/acks")

        served, started = answer["acks"]
        assert (served["type"], 0 <= served["ms"] < 30_000) == ("Resume", True)
        assert datetime.fromisoformat(served["time"]).tzinfo is not None
        assert [started.get(field) for field in ("type", "time", "ms")] == [None, None, None]

    def test_only_the_newest_acks_are_kept(self, job):
        """A driver that runs for months must not keep every command."""
        for revision in range(1, ACKS_KEPT_MAX + 10):
            job.server.acknowledge(Acknowledge(1, revision, revision, "Applied"))
        kept = job.server.acks(0)
        assert (len(kept), kept[-1].revision) == (ACKS_KEPT_MAX, ACKS_KEPT_MAX + 9)


class TestRevisionsOnlyGrow:
    def test_a_repeated_command_gets_the_same_answer(self, job):
        """The operator re-sends a command until it receives an answer."""
        first = command(job, request(1))
        assert command(job, request(1)) == first
        assert len(job.seen) == 1

    def test_an_older_revision_is_superseded(self, job):
        """A delayed message must not undo a newer command."""
        command(job, request(5, kind="Resume"))
        status, ack = command(job, request(4))
        assert (status, ack["outcome"]) == (200, "Superseded")
        assert [event.revision for event in job.seen] == [5]

    @pytest.mark.parametrize("forged", [2**32 + 1, 2**52])
    def test_a_revision_that_is_far_ahead_is_refused(self, job, forged):
        """The target stores the revision, so no later command could be newer in any attempt (fault S10)."""
        status, ack = command(job, request(forged))
        assert (status, ack["outcome"], ack["message"]) == (
            200,
            "Refused",
            "the newest revision is 0: send the next one",
        )
        assert job.seen == []

        assert command(job, request(1))[1]["outcome"] == "Applied"

    @pytest.mark.parametrize("forged", [2**52 + 1, 2**62])
    def test_a_revision_above_the_limit_is_refused_with_its_field(self, job, forged):
        """JSON readers represent integers up to 2^53 exactly."""
        status, answer = command(job, request(forged))
        assert (status, answer["error"]["field"]) == (400, "revision")

    def test_the_same_revision_with_another_command_is_superseded(self, job):
        """Two users may read the same newest revision: the second must not see hers as in force."""
        command(job, request(1))
        status, ack = command(job, request(1, kind="Resume"))
        assert (status, ack["outcome"]) == (200, "Superseded")

    def test_another_attempt_is_refused(self, job):
        """A command for a dead attempt must not reach its successor."""
        status, ack = command(job, request(1, attempt=2))
        assert (status, ack["outcome"], "attempt 1" in ack["message"]) == (409, "WrongAttempt", True)
        assert job.seen == []

    def test_concurrent_commands_get_separate_answers(self, job):
        """Sixteen clients send one revision: one command is applied, and fifteen are superseded."""
        start = threading.Barrier(16)

        def throttle(rate):
            start.wait()
            return command(job, request(1, kind="Throttle", throttle={"rowsPerSecond": rate}))

        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(throttle, range(16)))
        applied = [rate for rate, (_, ack) in enumerate(answers) if ack["outcome"] == "Applied"]
        assert len(applied) == 1
        assert [event.command for event in job.seen] == [Throttle(applied[0])]
        assert sorted({ack["outcome"] for _, ack in answers}) == ["Applied", "Superseded"]


class TestAReceiptIsReadBeforeTheServerEnds:
    def test_the_end_waits_for_the_sender_of_a_verify(self, monkeypatch):
        """The answer to a Verify is the receipt, and a receipt may be the end of the job."""
        monkeypatch.setattr(server, "GOODBYE_S", BUSY_S)
        with ScriptedJob(ends=True) as job:
            command(job, request(1, kind="Verify"))
            assert job.stopped.wait(BUSY_S)
            assert ask(job, "GET", "/v1/receipt")[1]["rows"] == 4000

    def test_the_end_waits_for_no_other_client(self, job, monkeypatch):
        """A job without a waiting client must not end late."""
        monkeypatch.setattr(server, "GOODBYE_S", BUSY_S)
        began_s = time.monotonic()
        job.server.close()
        assert time.monotonic() - began_s < BUSY_S

    def test_the_end_waits_for_a_short_time_only(self, monkeypatch):
        """The sender may have disconnected."""
        monkeypatch.setattr(server, "GOODBYE_S", 0.5)
        with ScriptedJob(ends=True) as job:
            command(job, request(1, kind="Verify"))
        with pytest.raises(OSError):
            ask(job, "GET", "/v1/receipt")


class TestLooksShowWhatTheJobSays:
    def test_progress_can_be_read(self, job):
        """The command line and the operator read the same fields."""
        status, answer = ask(job, "GET", "/v1/progress")
        assert (status, answer["rowsDone"], answer["rowsTotal"], answer["jobId"]) == (200, 1000, 4000, "scripted")

    def test_a_missing_receipt_is_null(self, job):
        """It is not an error."""
        assert ask(job, "GET", "/v1/receipt") == (200, None)
        command(job, request(1, kind="Verify"))
        # The receipt follows the acknowledgement.
        deadline_s = time.monotonic() + BUSY_S
        while (receipt := ask(job, "GET", "/v1/receipt")) == (200, None) and time.monotonic() < deadline_s:
            pass
        assert receipt[1]["rows"] == 4000

    def test_metrics_can_be_read(self, job):
        """Prometheus reads the same numbers as users."""
        status, text = ask(job, "GET", "/metrics")
        assert status == 200
        assert 'backfill_rows_done{job="scripted"} 1000.0' in text
        assert 'backfill_paused{job="scripted"} 0.0' in text

    def test_the_driver_is_not_ready_before_the_fence_is_sealed(self, job):
        """Another driver may still fence it."""
        job.progress = job.progress.model_copy(update={"table_version": None})
        assert ask(job, "GET", "/readyz", token="")[0] == 503


class TestADriverThatHasJustStarted:
    """The first commit of a driver follows a second or two after its server starts."""

    def test_readiness_waits_for_the_fence(self):
        """A kubelet creates a Warning event for each failed probe, and every start used to have some (fault K15)."""
        with ScriptedJob() as job:
            fenced = job.progress
            unfenced = fenced.model_copy(update={"table_version": None})
            reports = iter([unfenced, unfenced])
            job.server.progress = lambda: next(reports, fenced)

            assert ask(job, "GET", "/readyz", token="")[0] == 200


class TestJavaThatHangs:
    """The server needs no Java, so it must check Java itself: the kubelet only sees the probes."""

    def test_both_probes_fail_and_commands_work(self):
        """The operator reads the cause in the progress."""
        with ScriptedJob() as job:
            job.alive = False

            assert ask(job, "GET", "/healthz", token="")[0] == ask(job, "GET", "/readyz", token="")[0] == 503
            assert ask(job, "GET", "/v1/progress")[0] == 200
            assert command(job, request(1))[1]["outcome"] == "Applied"
