"""What Python prints as text by itself is a JSON line too in a pod of the operator (fault K15)."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

CONFIGURED = """
import gc
import warnings
from backfill_api.json_lines import log_what_python_prints
from backfill_operator.logs import configure_logging

configure_logging("INFO")
log_what_python_prints()
"""
PRINTED = {
    "a warning": ("warnings.warn('it is old\\nvery old')", "it is old"),
    "an uncaught exception": ("raise ValueError('no\\nway')", "ValueError: no"),
    "an exception in a finalizer": (
        """
        class Thing:
            def __del__(self):
                raise ValueError("too late")

        Thing()
        gc.collect()
        """,
        "ValueError: too late",
    ),
    "an exception that has a cause": (
        """
        try:
            raise OSError("the cause")
        except OSError as error:
            raise KeyError("x") from error
        """,
        "OSError: the cause",
    ),
}


class TestTextOfPython:
    """Who collects logs reads each line by the same rule."""

    @pytest.mark.parametrize(("code", "words"), PRINTED.values(), ids=PRINTED)
    def test_is_one_json_line(self, code, words):
        """Also where it has several lines."""
        script = CONFIGURED + textwrap.dedent(code)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)

        (line,) = done.stderr.splitlines()
        assert done.stdout == ""
        assert words in json.loads(line)["message"] + json.loads(line).get("error", "")

    def test_bad_setting_is_a_json_line(self):
        """It is found before the log level is known."""
        done = subprocess.run(
            [sys.executable, "-m", "backfill_operator"],
            env=os.environ | {"BACKFILL_OPERATOR_LOG_LEVEL": "CHATTY"},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

        (line,) = done.stderr.splitlines()
        assert done.returncode == 2
        assert "BACKFILL_OPERATOR_LOG_LEVEL" in json.loads(line)["message"]
