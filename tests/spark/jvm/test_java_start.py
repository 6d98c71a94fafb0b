"""If Java does not start, the error names the reason."""

import os
import subprocess
import sys

import pytest
from support.endings import assert_ending

from backfill_spark.jvm.java_process import last_error

NO_NAME = """WARNING: Using incubator modules: jdk.incubator.vector
Exception in thread "main" org.apache.hadoop.security.KerberosAuthException: failure to login
\tat org.apache.hadoop.security.UserGroupInformation.doSubjectLogin(UserGroupInformation.java:2072)
Caused by: javax.security.auth.login.LoginException: java.lang.NullPointerException: invalid null input: name
\tat jdk.security.auth/com.sun.security.auth.UnixPrincipal.<init>(UnixPrincipal.java:67)
\t... 12 more
"""
NO_MEMORY = """Error occurred during initialization of VM
Could not reserve enough space for 104857600KB object heap
"""
START = """
from backfill_core.errors import BackfillError
from backfill_spark.jvm.session import open_session
try:
    open_session(app_name="any", memory="1k")
except BackfillError as error:
    print(error.reason, error.exit_code, error.message, error.hint, sep="|")
"""


class TestWhatJavaSays:
    """The last cause that Java prints is in the status.

    Before, it had pyspark's JAVA_GATEWAY_EXITED, and a driver blamed a bug (fault C2).
    """

    @pytest.mark.parametrize(
        ("output", "error"),
        [
            (
                NO_NAME,
                "javax.security.auth.login.LoginException: java.lang.NullPointerException: invalid null input: name",
            ),
            (
                NO_MEMORY,
                "Error occurred during initialization of VM; Could not reserve enough space for 104857600KB object heap",
            ),
            ("", "it prints nothing"),
        ],
        ids=["no name", "no memory", "nothing"],
    )
    def test_the_message_is_its_last_cause(self, output, error):
        """The first lines of a stack trace are not the cause."""
        assert last_error(output) == error

    @pytest.mark.spark
    def test_the_message_is_in_the_error(self):
        """No Java starts with such a heap, and another attempt does not change that."""
        done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True, check=True, timeout=300)

        reason, code, message, hint = done.stdout.strip().splitlines()[-1].split("|")
        assert_ending({"reason": reason, "hint": hint}, "JavaMissing", int(code))
        assert "Too small maximum heap" in message
        assert "BACKFILL_MEMORY" in hint


LISTS_A_NAME = """
import os, sys
from backfill_spark.jvm.session import open_session
spark = open_session(app_name="any", memory="512m")
opened = spark._jvm.java.io.File(sys.argv[1]).exists(), spark.read.text(sys.argv[1]).count()
print(*opened, os.environ["LC_ALL"], sep="|")
"""


class TestAnAsciiLocale:
    """A job of cron often runs with `LC_ALL=C`."""

    @pytest.mark.spark
    @pytest.mark.rest
    def test_java_opens_a_file_whose_name_is_not_ascii(self, tmp_path):
        """A table in such a folder could not be read. The caller's own environment stays."""
        file = tmp_path / "Aufträge-日本.txt"
        file.write_text("one\ntwo\n")
        done = subprocess.run(
            [sys.executable, "-c", LISTS_A_NAME, str(file)], env=os.environ | {"LC_ALL": "C"}, capture_output=True,
            text=True, timeout=300, check=False,
        )  # fmt: skip

        assert done.stdout.splitlines()[-1:] == ["True|2|C"], done.stderr
