"""The settings of `spec.spark` by which people observe a job, on a real Spark: event log, web UI, log level, history server."""

import http.client
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pyspark
import pytest
from support.operators.observations import spec

from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.spark_pages import observing_settings

SESSION = """
import json, sys, urllib.request
from backfill_spark.jvm.event_log import refused_log_warnings
from backfill_spark.jvm.session import open_session

spark = open_session(app_name="seen", cores=1, memory="512m", conf=json.loads(sys.argv[1]))
seen = {"rows": spark.range(3).count(), "warnings": [w.message for w in refused_log_warnings(spark.sparkContext.getConf().get)]}
if spark.sparkContext.uiWebUrl:
    port = spark.sparkContext.uiWebUrl.rpartition(":")[2]
    def read(path):
        return urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60)
    seen["jobs"] = read("/api/v1/applications").status
spark.stop()
print(json.dumps(seen))
"""
HISTORY_LINE = re.compile(r"started at (http://\S+)|Started HistoryServer at (http://\S+)", re.IGNORECASE)


def settings(**spark):
    """Return the settings of a spec's `spark`, as the operator sends them to a driver."""
    launch = Launch("shop", "orders", "uid", 1, "Run", spec(spark=spark), Installation("backfill:1"))
    return observing_settings(launch)


def session(conf):
    """Return the report of a process that opens a session with these settings and counts three rows."""
    done = subprocess.run(
        [sys.executable, "-c", SESSION, json.dumps(conf)], capture_output=True, text=True, check=False, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def history(folder):
    """Return the applications that a real history server lists for a folder of event logs."""
    jars = Path(pyspark.__file__).parent / "jars"
    command = [
        "java", "-cp", f"{jars}/*", f"-Dspark.history.fs.logDirectory=file:{folder}", "-Dspark.history.ui.port=0",
        "-Dspark.history.fs.update.interval=1s", "org.apache.spark.deploy.history.HistoryServer",
    ]  # fmt: skip
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    ) as server:
        try:
            found = next(match for line in server.stderr if (match := HISTORY_LINE.search(line)))
            address = urlsplit(found[1] or found[2])
            for _ in server.stderr:  # a log line follows each reading of the folder, so this waits without a sleep
                connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=60)
                connection.request("GET", "/api/v1/applications")
                if listed := json.loads(connection.getresponse().read()):
                    return listed
        finally:
            server.kill()
    raise AssertionError("the history server ended")


@pytest.mark.spark
@pytest.mark.rest
class TestAnEventLog:
    def test_session_starts_without_a_log_that_it_cannot_write(self, tmp_path):
        """Spark itself would end. The folder is below a file, which no user can write."""
        (tmp_path / "file").write_text("")
        folder = f"{tmp_path}/file/events"

        seen, _ = session(settings(eventLog={"path": folder}))

        assert seen["rows"] == 3
        [warning] = seen["warnings"]
        assert warning.startswith(f"spec.spark.eventLog.path: cannot write to {folder}: ")

    def test_history_server_shows_the_log_of_a_session_with_a_ui(self, tmp_path):
        """The UI answers while the session lives; the folder of the log is created."""
        folder = tmp_path / "new" / "events"

        seen, log = session(settings(eventLog={"path": str(folder)}, ui=True, logLevel="INFO"))

        assert seen == {"rows": 3, "warnings": [], "jobs": 200}
        assert " INFO " in log
        assert [file.name for file in folder.iterdir() if file.name.startswith(".backfill-")] == []
        assert len(list(folder.glob("eventlog_v2_*/events_1_*.zstd"))) == 1
        [application] = history(folder)
        assert application["name"] == "seen"
        assert application["attempts"][0]["completed"]
