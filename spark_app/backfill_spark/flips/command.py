"""Flip by an executable of the user, on this machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import TYPE_CHECKING

from backfill_api.spec.switch import FlipSpec
from backfill_core.errors import FlipFailedError
from backfill_spark.ports.flip import FlipPlugin, Previous

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPE = "Command"
TIMEOUT_S = 60.0
EXCERPT_CHARACTERS = 500
HINT = "Run the command by hand. It must end with 0: `show` prints the folder to which the name points, `set FOLDER` changes it."


class CommandFlip:
    """Runs `COMMAND show` and `COMMAND set FOLDER`."""

    def __init__(self, command: Sequence[str]) -> None:
        """Run nothing yet.

        Args:
            command: Executable with its arguments; no shell interprets them.
        """
        self._command = tuple(command)

    def describe(self, source: str, target: str) -> list[str]:
        """Return both calls: the flip, and its undo."""
        name = " ".join(self._command)
        return [f"run {name} set {target}", f"undo: run {name} set {source}"]

    def points_to(self) -> str | None:
        """Return the first line that `show` prints; `None` if it prints nothing."""
        return self._run("show").strip().partition("\n")[0].strip() or None

    def current(self) -> Previous:
        """Return the folder that `show` prints."""
        return Previous(TYPE, {"path": self.points_to() or ""})

    def flip(self, to_path: str) -> Previous:
        """Run `set`, unless the name points to the folder already."""
        before = self.current()
        if before.definition["path"] != to_path:
            self._run("set", to_path)
        return before

    def undo(self, previous: Previous) -> None:
        """Run `set` with the earlier folder."""
        self.flip(previous.definition["path"])

    def _run(self, *arguments: str) -> str:
        called = [*self._command, *arguments]
        shown = " ".join(called)
        try:
            done = subprocess.run(called, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise FlipFailedError(f"`{shown}` did not end within {TIMEOUT_S:g} s.", hint=HINT) from error
        except OSError as error:
            raise FlipFailedError(f"`{shown}` cannot be run: {error}.", hint=HINT) from error
        if done.returncode:
            detail = (done.stderr or done.stdout).strip()[-EXCERPT_CHARACTERS:]
            raise FlipFailedError(f"`{shown}` ended with {done.returncode}: {detail or 'no output'}.", hint=HINT)
        return done.stdout


def _open(spark: SparkSession, spec: FlipSpec) -> CommandFlip:  # noqa: ARG001 - part of the port
    return CommandFlip(spec.command)


FLIP = FlipPlugin(TYPE, _open)
