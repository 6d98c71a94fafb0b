"""Flip without a name: users change their readers and writers themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backfill_api.spec.switch import FlipSpec
from backfill_spark.ports.flip import FlipPlugin, Previous

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TYPE = "None"


class NoFlip:
    """Changes nothing, and describes the change that users make."""

    def describe(self, source: str, target: str) -> list[str]:
        """Return the change for users."""
        return [f"change readers and writers yourself: use {target} instead of {source}"]

    def points_to(self) -> str | None:
        """Return `None`: there is no name."""
        return None

    def current(self) -> Previous:
        """Return an empty definition."""
        return Previous(TYPE, {})

    def flip(self, to_path: str) -> Previous:  # noqa: ARG002 - part of the port
        """Change nothing."""
        return self.current()

    def undo(self, previous: Previous) -> None:
        """Change nothing."""


def _open(spark: SparkSession, spec: FlipSpec) -> NoFlip:  # noqa: ARG001 - part of the port
    return NoFlip()


FLIP = FlipPlugin(TYPE, _open)
