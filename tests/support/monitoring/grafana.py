"""Grafana's schema of a dashboard. Its Go library is compiled once and kept in the user's cache."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from support.monitoring.prometheus import BUILD_S

SOURCE = Path(__file__).parent / "dashboard_schema"


class NoSchemaError(Exception):
    """The program cannot be compiled; the message has the reason."""


def schema_program():
    """Return the path of the program that checks dashboards.

    Raises:
        NoSchemaError: it cannot be compiled.
    """
    version = hashlib.sha256(b"".join((SOURCE / name).read_bytes() for name in ("go.mod", "go.sum", "main.go")))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "backfill-grafana"
    made = cache / f"dashboard-schema-{version.hexdigest()[:12]}"
    if made.is_file():
        return made
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if go is None:
        raise NoSchemaError("there is no go to compile the schema of Grafana")
    command = [go, "build", "-mod=readonly", "-o", str(made), "."]
    environ = {**os.environ, "GOFLAGS": ""}
    done = subprocess.run(
        command, cwd=SOURCE, env=environ, capture_output=True, text=True, check=False, timeout=BUILD_S
    )
    if done.returncode:
        raise NoSchemaError("it could not be compiled:\n" + "\n".join(done.stderr.splitlines()[-10:]))
    return made


def problems(*dashboards):
    """Return what Grafana's schema refuses in these files; empty if they are valid."""
    done = subprocess.run(
        [str(schema_program()), *map(str, dashboards)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == (1 if done.stdout else 0), done.stderr
    return done.stdout
