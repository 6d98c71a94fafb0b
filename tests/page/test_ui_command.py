"""`backfill ui` serves until Ctrl-C, and names the extra that it needs."""

import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request

import pytest
from support.console.forked import ForkedPython
from support.repository import ROOT

from backfill_cli.commands.options import EXTRAS

PROGRAM = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
sys.argv = ["backfill", *{words!r}]
from {package}.entry import main
main()
"""
ENDS_S = 30


def start(folder, *words):
    """Start the command."""
    environment = os.environ | {"BACKFILL_STATE_DIR": str(folder)}
    return ForkedPython(
        ["-m", "backfill_cli", *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


class TestTheCommand:
    """Its only output is the link."""

    def test_link_opens_the_page_and_ctrl_c_ends_it(self, tmp_path):
        """An open stream of a browser does not delay the end."""
        process = start(tmp_path, "ui")
        try:
            link = re.fullmatch(r"open (http://127\.0\.0\.1:\d+/open\?token=[\w-]{40,})\n", process.stdout.readline())[
                1
            ]
            with pytest.raises(urllib.error.HTTPError, match="401"):
                urllib.request.urlopen(link.partition("/open")[0] + "/", timeout=ENDS_S)
            browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            assert b"No jobs." in browser.open(link, timeout=ENDS_S).read()
            stream = browser.open(link.partition("/open")[0] + "/events", timeout=ENDS_S)
            assert stream.readline().startswith(b"data: ")
        finally:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=ENDS_S)

        assert (process.returncode, out, err) == (0, "", "the page has ended; the jobs continue\n")

    def test_taken_port_is_named(self, tmp_path):
        """The user chooses another one."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            process = start(tmp_path, "ui", "--port", str(port))
            _, err = process.communicate(timeout=ENDS_S)

        assert process.returncode == 2
        assert f"--port {port} cannot be used: Address already in use. Leave it out for a free one." in err

    def test_missing_package_is_named_with_the_extra(self):
        """`pip install 'backfill-operator[cli]'` brings no page."""
        program = PROGRAM.format(blocked={"starlette"}, words=("ui",), package="backfill_cli")
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=ENDS_S
        )

        assert done.returncode == 2
        assert done.stderr.splitlines() == [
            "error: PackageMissing: this command needs starlette, which is not installed.",
            "hint: pip install 'backfill-operator[cli,ui]'",
        ]

    def test_each_package_of_the_extra_has_its_line_to_install(self):
        """A new package without a line would be reported as a bug."""
        extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["ui"]

        assert {name for name, of in EXTRAS.items() if of == "ui"} == {re.match("[a-z0-9]+", line)[0] for line in extra}

    def test_page_needs_no_spark(self):
        """A machine that watches jobs of another user of the machine has no Java either."""
        program = PROGRAM.format(
            blocked={"pyspark", "py4j", "delta", "prometheus_client", "kubernetes", "kopf", "backfill_operator"},
            words=("ui", "--port", "70000"),
            package="backfill_cli",
        )
        program = program.replace(
            "main()", "import backfill_page.server.serve, backfill_cli.page.local_jobs\nmain()", 1
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=ENDS_S
        )

        assert "70000 is not in the range" in done.stderr, done.stderr
