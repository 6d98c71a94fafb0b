"""Another program, or a driver of a later release, may answer at the address of a driver (fault S10)."""

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
REQUESTS = [
    *((arguments, *answer) for arguments in (["status"], ["pause"]) for answer in FOREIGN.values()),
    *((arguments, 200, b"{}") for arguments in (["resume"], ["throttle", "200k"], ["stop"], ["verify"])),
]


@contextmanager
def answering(state_dir, answer, length=True):
    """Serve answers at the address of a running driver."""

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
    """Check that the message contains the address, the fault of the answer, and a remedy."""
    assert done.exit_code == 4, done.output
    assert f"error: NotRunning: {url}, the address of the driver of 'default/job', gives an answer" in done.stderr
    assert "otherwise end the program that listens there" in done.stderr


class TestAProgramThatIsNoDriver:
    """A command reports the address, the fault of the answer and a remedy, never an error of a library."""

    @pytest.mark.parametrize(
        ("arguments", "status", "body"),
        REQUESTS,
        ids=lambda value: " ".join(value) if isinstance(value, list) else str(value)[:30],
    )
    def test_a_foreign_answer_is_reported_with_the_address(self, state_dir, arguments, status, body):
        """Every request gets the same answer."""
        with answering(state_dir, lambda _: (status, body)) as url:
            assert_names_the_address(backfill(*arguments), url)

    @pytest.mark.parametrize("path", ["/v1/acks", "/v1/command", "/v1/receipt"])
    def test_a_later_foreign_answer_is_reported_with_the_address(self, state_dir, path):
        """Another program may take the port between two requests."""

        def answer(path_requested):
            if path_requested.startswith(path):
                return 200, b'{"acks": [{}], "rows": "many"}'
            return 200, PROGRESS if path_requested == "/v1/progress" else b'{"acks": []}'

        with answering(state_dir, answer) as url:
            assert_names_the_address(backfill("status" if path == "/v1/receipt" else "pause"), url)

    def test_a_body_without_a_length_is_not_read(self, state_dir):
        """Such a body may be endless."""
        with answering(state_dir, lambda _: (200, PROGRESS), length=False) as url:
            assert_names_the_address(backfill("status"), url)

    def test_jobs_lists_drivers_in_spite_of_a_foreign_address(self, state_dir):
        """The address of another program hides no driver."""
        with answering(state_dir, lambda _: (200, HTML)) as url, running(state_dir, "a/1"):
            done = backfill("jobs")

        assert (done.exit_code, f"{url}, the address of the driver" in done.stdout) == (0, True)
        assert "1,000 of 4,000 rows" in done.stdout

    @pytest.mark.parametrize("document", [{"job_id": 1}, {"url": 5}, {"token": None}, {"pid": "x"}, {"attempt": []}])
    def test_a_file_with_wrong_values_is_ignored(self, state_dir, document):
        """Another program may have written it into the folder."""
        address = {"job_id": "a/1", "url": "http://127.0.0.1:1", "token": "t", "attempt": 1, "pid": 1}
        with running(state_dir, "a/1"):
            control_file(state_dir, "a/1").write_text(json.dumps(address | document))
            done = backfill("jobs")

        assert (done.exit_code, done.stdout) == (0, "no backfill runs on this machine\n")


class TestADriverOfALaterRelease:
    """The command line ignores fields of a later release, like the operator."""

    def test_the_progress_of_a_later_release_is_shown(self, state_dir):
        """The command line must still work after an upgrade of the driver."""
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
