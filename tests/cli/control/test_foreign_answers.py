"""What answers at the address of a driver may be another program, or a driver of a later release (fault S10)."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from support.console.command_line import backfill, running

from backfill_spark.control.local_registry import LocalRegistry, control_file

HTML = b"<html><h1>It works!</h1></html>"
PROGRESS = json.dumps({"jobId": "default/job", "attempt": 1}).encode()
FOREIGN = {
    "HTML": (200, HTML),
    "HTML of an error": (500, HTML),
    "HTML of a conflict": (409, HTML),
    "JSON of another program's error": (404, b'{"detail": "Not Found"}'),
    "an empty body": (200, b""),
    "null": (200, b"null"),
    "a list": (200, b"[]"),
    "an empty object": (200, b"{}"),
    "a text": (200, b'"ok"'),
    "not UTF-8": (200, b'{"jobId": "\xff"}'),
    "a value of another type": (200, b'{"jobId": "default/job", "percent": {"is": "high"}}'),
    "an endless number": (200, b'{"jobId": "default/job", "percent": Infinity}'),
    "lists in lists": (200, b"[" * 100_000),
}
ASKED = [
    *((words, *answer) for words in (["status"], ["pause"]) for answer in FOREIGN.values()),
    *((words, 200, b"{}") for words in (["resume"], ["throttle", "200k"], ["stop"], ["verify"])),
]


@contextmanager
def answering(state_dir, answer, length=True):
    """Answer at the address of a driver that is alive."""

    class Foreign(BaseHTTPRequestHandler):
        def do_GET(self):
            status, body = answer(self.path)
            self.send_response(status)
            if length:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Foreign)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        with LocalRegistry(state_dir, "default/job") as registry:
            url = f"http://127.0.0.1:{server.server_port}"
            registry.publish(url=url, token="t", attempt=1)
            yield url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def assert_names_the_address(done, url):
    """The message has the address and what is wrong, and a remedy."""
    assert done.exit_code == 4, done.output
    assert f"error: NotRunning: {url}, the address of the driver of 'default/job', gives an answer" in done.stderr
    assert "otherwise end the program that listens there" in done.stderr


class TestAProgramThatIsNoDriver:
    """A command ends with the address, the answer's fault and a remedy, never with an error of a library."""

    @pytest.mark.parametrize(
        ("words", "status", "body"),
        ASKED,
        ids=lambda value: " ".join(value) if isinstance(value, list) else str(value)[:30],
    )
    def test_command_is_refused_with_the_address(self, state_dir, words, status, body):
        """Every question is answered with the same."""
        with answering(state_dir, lambda _: (status, body)) as url:
            assert_names_the_address(backfill(*words), url)

    @pytest.mark.parametrize("path", ["/v1/acks", "/v1/command", "/v1/receipt"])
    def test_command_is_refused_when_a_later_answer_is_foreign(self, state_dir, path):
        """Another program may take the port between two requests."""

        def answer(asked):
            if asked.startswith(path):
                return 200, b'{"acks": [{}], "rows": "many"}'
            return 200, PROGRESS if asked == "/v1/progress" else b'{"acks": []}'

        with answering(state_dir, answer) as url:
            assert_names_the_address(backfill("status" if path == "/v1/receipt" else "pause"), url)

    def test_body_without_a_length_is_not_read(self, state_dir):
        """It may have no end."""
        with answering(state_dir, lambda _: (200, PROGRESS), length=False) as url:
            assert_names_the_address(backfill("status"), url)

    def test_list_of_jobs_shows_the_others(self, state_dir):
        """One address of another program hides no driver."""
        with answering(state_dir, lambda _: (200, HTML)) as url, running(state_dir, "a/1"):
            done = backfill("jobs")

        assert (done.exit_code, f"{url}, the address of the driver" in done.stdout) == (0, True)
        assert "1,000 of 4,000 rows" in done.stdout

    @pytest.mark.parametrize("document", [{"job_id": 1}, {"url": 5}, {"token": None}, {"pid": "x"}, {"attempt": []}])
    def test_file_with_other_values_is_no_address(self, state_dir, document):
        """Such as one that another program wrote into the folder."""
        address = {"job_id": "a/1", "url": "http://127.0.0.1:1", "token": "t", "attempt": 1, "pid": 1}
        with running(state_dir, "a/1"):
            control_file(state_dir, "a/1").write_text(json.dumps(address | document))
            done = backfill("jobs")

        assert (done.exit_code, done.stdout) == (0, "no backfill runs on this machine\n")


class TestADriverOfALaterRelease:
    """Fields that only its release knows are left out, as the operator leaves them out."""

    def test_its_progress_is_shown(self, state_dir):
        """An upgrade of the driver must not blind the command line."""
        later = {
            "jobId": "default/job",
            "attempt": 1,
            "rowsDone": 1000,
            "rowsTotal": 4000,
            "phase": "Snapshot",
            "moons": 2,
        }
        answers = {"/v1/progress": later, "/v1/receipt": None, "/v1/acks?after=0": {"attempt": 1, "acks": []}}
        with answering(state_dir, lambda path: (200, json.dumps(answers[path]).encode())):
            done = backfill("status")

        assert (done.exit_code, "1,000 of 4,000 rows" in done.stdout) == (0, True), done.stderr
