"""Settings of a driver process; the only place that reads the environment."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from backfill_api.environment import MASTER, SOURCE_SECRET_DIR
from backfill_core.errors import EXIT_USAGE, BackfillError
from backfill_spark import crash_points as crash

DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"

LOOPBACK = "127.0.0.1"
_log = logging.getLogger(__name__)
ASCII_LOCALES = ("C", "POSIX")
MEMORY_PATTERN = r"^[1-9][0-9]{0,5}[mMgG]$"


class InvalidSettingError(BackfillError):
    """An environment variable or the given file is invalid; the message names it."""

    reason = "InvalidSetting"
    exit_code = EXIT_USAGE


class DriverSettings(BaseModel):
    """Settings of this process; none of them changes the result of a job."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cores: int = Field(default_factory=lambda: os.cpu_count() or 2, ge=1)
    """Threads of the embedded Spark."""

    memory: str = Field(default="4g", pattern=MEMORY_PATTERN)
    """Heap of the embedded Spark's JVM."""

    jars_dir: Path | None = None
    """Folder with the Delta jars; by default, that of the image, else one in the user's cache."""

    state_dir: Path = Field(default_factory=lambda: default_state_dir(os.environ))
    """Folder in which running drivers publish their address and token for the command line."""

    java_home: str | None = None
    """Folder of Java; `None` uses the Java on the path."""

    check_unique: bool | None = None
    """True proves the key unique before the first write, False never; `None` proves it later for tables with more than 5 million rows."""

    crash_at: str | None = None
    """Crash point for the crash suite: `point:n`."""

    master: Literal["local", "cluster"] = "local"
    """`cluster`: master, memory and addresses come from `spark-defaults.conf`, jars from the image."""

    mode: Literal[
        "run", "plan", "refresh", "switch", "undo-switch", "complete-switch", "follow-back", "repair", "close"
    ] = "run"
    """The driver runs the job; in mode `refresh` also a finished one, from its last position; in mode `plan`, it only prints the plan.
    In the other modes it performs a procedure, and ends."""

    control_bind: str = LOOPBACK
    """Address of the control server."""

    control_port: int = Field(default=0, ge=0, le=65_535)
    """Port of the control server; 0 selects a free port."""

    control_tls_dir: Path | None = None
    """Folder with `tls.crt` and `tls.key`; `None` uses plain HTTP, on loopback only."""

    control_token_file: Path | None = None
    """File with the token for commands to this attempt; `None` creates a token."""

    operator_attempt: int | None = Field(default=None, ge=1)
    """Attempt number in commands; `None` uses the number in the target's state."""

    termination_log: Path | None = None
    """File for the termination message; `None` writes no message."""

    @field_validator("crash_at")
    @classmethod
    def _known(cls, spec: str | None) -> str | None:
        crash.parse(spec)
        return spec

    @model_validator(mode="after")
    def _only_loopback_is_plain(self) -> Self:
        if self.control_bind != LOOPBACK and self.control_tls_dir is None:
            raise ValueError("needs BACKFILL_CONTROL_TLS_DIR: a token must not travel in the clear")
        return self

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> DriverSettings:
        """Read `BACKFILL_…` for every field, and `JAVA_HOME`.

        Raises:
            InvalidSettingError: a value is invalid; names the variable.
        """
        given = os.environ if environ is None else environ
        names = set(cls.model_fields) - {"java_home"}
        values = {name: given.get(f"BACKFILL_{name.upper()}") for name in names} | {"java_home": given.get("JAVA_HOME")}
        values["state_dir"] = values["state_dir"] or str(default_state_dir(given))
        try:
            return cls.model_validate({name: value for name, value in values.items() if value})
        except ValidationError as error:
            first = error.errors()[0]
            # A rule over several fields has no location; the only such rule concerns the address.
            field = str(first["loc"][0]) if first["loc"] else "control_bind"
            variable = f"BACKFILL_{field.upper()}"
            raise InvalidSettingError(
                f"{variable}={values[field]!r}: {first['msg'][:1].lower()}{first['msg'][1:]}.",
                hint=f"Correct or unset {variable}.",
            ) from error


class LineageSettings(BaseModel):
    """Server for events of OpenLineage, by the variables of OpenLineage's own clients."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(pattern=r"^https?://[^\s/@]+(/\S*)?$")
    endpoint: str = "api/v1/lineage"
    namespace: str = "default"
    api_key: str = Field(default="", repr=False)


def lineage_settings(environ: Mapping[str, str] | None = None) -> LineageSettings | None:
    """Return the server in `OPENLINEAGE_URL`; `None` without one, if it is no address, or if `OPENLINEAGE_DISABLED` is true."""
    given = os.environ if environ is None else environ
    values = {name: given.get(f"OPENLINEAGE_{name.upper()}") for name in LineageSettings.model_fields}
    if not values["url"] or given.get("OPENLINEAGE_DISABLED", "").lower() == "true":
        return None
    try:
        return LineageSettings.model_validate({name: value for name, value in values.items() if value})
    except ValidationError:
        _log.warning("OPENLINEAGE_URL is no address such as http://marquez:5000, so no events are sent")
        return None


def in_a_pod() -> bool:
    """Return whether a cluster collects what this process prints. Asked before all settings are read, which may fail."""
    return os.environ.get(MASTER) == "cluster"


@contextmanager
def file_names_in_utf8() -> Iterator[None]:
    """Let a Java process that starts inside the block open files with any name, where `LC_ALL` says ASCII.

    Java takes the encoding of names from the locale, and no property overrides that. Python itself decodes UTF-8 in such a locale.
    """
    given = os.environ.get("LC_ALL")
    if given not in ASCII_LOCALES:
        yield
        return
    os.environ["LC_ALL"] = "C.UTF-8"
    try:
        yield
    finally:
        os.environ["LC_ALL"] = given


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for control files by the XDG convention."""
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "backfill"


def default_jars_dir(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for Delta's jars by the XDG convention; each version has a separate folder."""
    base = (os.environ if environ is None else environ).get("XDG_CACHE_HOME")
    version = DELTA_PACKAGE.rsplit(":", 1)[1]
    return (Path(base) if base else Path.home() / ".cache") / "backfill" / f"jars-delta-{version}"


def source_secret_dir(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder with the keys of the Secret that a source names, one file per key; `None` if there is no Secret."""
    folder = (os.environ if environ is None else environ).get(SOURCE_SECRET_DIR)
    return Path(folder) if folder else None
