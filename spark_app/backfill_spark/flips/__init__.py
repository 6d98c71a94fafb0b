"""Flips: one module for each kind of name that a switch-over changes. Discovery finds the modules; no list names them.

A module defines `FLIP`, and imports Spark only when it opens a flip.
"""

from __future__ import annotations

from collections.abc import Mapping

from backfill_api import plugins
from backfill_spark.ports.flip import FlipPlugin


def discover() -> Mapping[str, FlipPlugin]:
    """Return all kinds of flips by `spec.switch.flip.type`."""
    return plugins.discover(__name__, __path__, group="backfill.flips", attribute="FLIP", kind=FlipPlugin)
