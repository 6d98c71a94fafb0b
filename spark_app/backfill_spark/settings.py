"""Settings of a driver process; the only place that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from backfill_core.errors import EXIT_USAGE, BackfillError
from backfill_spark import crash

MEMORY_PATTERN = r"^[1-9][0-9]{0,5}[mMgG]$"


class InvalidSettingError(BackfillError):
    """A variable of the environment, or the file that was given, cannot be used; the message names it."""

    reason = "InvalidSetting"
    exit_code = EXIT_USAGE


class DriverSettings(BaseModel):
    """How this process runs; nothing of it changes what the job does."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cores: int = Field(default_factory=lambda: os.cpu_count() or 2, ge=1)
    """Threads of the embedded Spark."""

    memory: str = Field(default="4g", pattern=MEMORY_PATTERN)
    """Heap of the embedded Spark's JVM."""

    jars_dir: Path | None = None
    """Folder with the Delta jars; None: Spark's own package cache."""

    state_dir: Path = Field(default_factory=lambda: default_state_dir(os.environ))
    """Where running drivers leave their address and token, for the command line."""

    java_home: str | None = None
    """Where Java is; None: on the path."""

    check_unique: bool | None = None
    """Prove the key unique before the first write; None: for tables of up to 5 million rows."""

    crash_at: str | None = None
    """For the crash suite: `point:n`."""

    @field_validator("crash_at")
    @classmethod
    def _known(cls, spec: str | None) -> str | None:
        crash.parse(spec)
        return spec

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> DriverSettings:
        """Read `BACKFILL_CORES`, `_MEMORY`, `_JARS_DIR`, `_STATE_DIR`, `_CRASH_AT`, and `JAVA_HOME`.

        Raises:
            InvalidSettingError: one of them says nothing usable.
        """
        given = os.environ if environ is None else environ
        names = {"cores", "memory", "jars_dir", "state_dir", "check_unique", "crash_at"}
        values = {name: given.get(f"BACKFILL_{name.upper()}") for name in names} | {"java_home": given.get("JAVA_HOME")}
        values["state_dir"] = values["state_dir"] or str(default_state_dir(given))
        try:
            return cls.model_validate({name: value for name, value in values.items() if value})
        except ValidationError as error:
            first = error.errors()[0]
            variable = f"BACKFILL_{str(first['loc'][0]).upper()}"
            raise InvalidSettingError(
                f"{variable}={first['input']!r}: {first['msg'][:1].lower()}{first['msg'][1:]}.",
                cure=f"Mend or unset {variable}.",
            ) from error


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """Return the folder for control files by the XDG convention."""
    base = environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "backfill"
