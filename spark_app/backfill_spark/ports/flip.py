"""Flip of a name: the change of a switch-over that readers and writers see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from backfill_api.spec.switch import FlipSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Previous:
    """Definition of a name before a flip; it is stored as JSON, so that an undo in another process has it."""

    type: str
    """Type of the flip that returned it."""

    definition: Mapping[str, str]
    """Facts from which `Flip.undo` restores the name; names and values belong to the flip."""


class Flip(Protocol):
    """One name that a switch-over changes. A process may be killed between two calls, so each call may be repeated."""

    def describe(self, source: str, target: str) -> list[str]:
        """Return the lines of a dry run: each change that `flip` would make."""

    def points_to(self) -> str | None:
        """Return the folder to which the name points; `None` if the flip changes no name, or if the name has no folder.

        Raises:
            BackfillError: the name does not exist or cannot be read.
        """

    def current(self) -> Previous:
        """Return the present definition; the switch-over stores it before it calls `flip`."""

    def flip(self, to_path: str) -> Previous:
        """Make the name point to a folder, and return the definition before; a name that points there stays unchanged."""

    def undo(self, previous: Previous) -> None:
        """Restore a definition that `current` or `flip` returned; a name that has it stays unchanged."""


@dataclass(frozen=True, slots=True)
class FlipPlugin:
    """Declaration of a kind of flips, in the variable `FLIP` of its module."""

    name: str
    """The value of `spec.switch.flip.type` that chooses it."""

    open: Callable[[SparkSession, FlipSpec], Flip]
    """Returns the flip that a spec describes; changes nothing."""
