"""Tries for a plan who moves copied files, and how fast: the store copies one file of the source several times at once.

The copies have names that no reader of a table looks at, and are removed. Their objects are the only ones that a plan writes, except
the probe of conditional writes.
"""

from __future__ import annotations

import secrets
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from backfill_api.spec.bounds import MESSAGE_MAX, count
from backfill_api.status.plan import PlannedMover
from backfill_core.file_copies.copy_modes import CopyMode, Hiding, Whole
from backfill_core.file_copies.movers import COPY_MAX_BYTES, S3, ByDriver, Mover, requests_of
from backfill_core.file_copies.request_width import NARROWEST
from backfill_spark.file_copies.bytes import ByteCopier
from backfill_spark.file_copies.planner import JobCopyModes
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.workers import at_once
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.sink import SupportsCopies

if TYPE_CHECKING:
    from backfill_spark.opening.tables import Tables

TRIAL_BYTES = 256 << 20
"""Bytes that a trial copies at most, unless its one file is larger."""

LOOKED_AT = 64
"""Files of which the smallest one is copied."""


@dataclass(frozen=True, slots=True)
class MoverTrial:
    """The mover of files that are copied whole."""

    mover: Mover
    requests: int
    bytes_per_s: float | None
    """Rate of the store; `None` if the driver streams, or if nothing was copied."""

    @property
    def planned(self) -> PlannedMover:
        """Return it for the plan."""
        by_driver = isinstance(self.mover, ByDriver)
        return PlannedMover(
            name="Driver" if by_driver else "Store",
            reason=self.mover.reason[:MESSAGE_MAX] if isinstance(self.mover, ByDriver) else "",
            bytes_per_second=None if self.bytes_per_s is None else count(self.bytes_per_s),
            requests=self.requests,
        )


def tried(tables: Tables, modes: JobCopyModes, counted: Counter[CopyMode], filled: Sequence[int]) -> MoverTrial | None:
    """Return the mover; `None` if no file is copied whole, or if no table is on S3.

    Args:
        tables: The tables of the plan.
        modes: Copy modes of the files.
        counted: Number of files of each mode.
        filled: The files with rows.
    """
    whole = sum(
        number for mode, number in counted.items() if isinstance(mode.mode if isinstance(mode, Hiding) else mode, Whole)
    )
    if not whole or modes.source is None or not isinstance(tables.sink, SupportsCopies):
        return None
    copier = ByteCopier(tables.spark, modes.source.path, ability(tables.sink, SupportsCopies).path)
    if not any(path.startswith(f"{S3}:") for path in (copier.source, copier.target)):
        return None
    sizes = [tables.pinned.bytes[file] for file in filled][:whole]
    chosen = min(modes.source.source_files(filled[:LOOKED_AT]), key=lambda file: file.size_bytes)
    rate = None
    if copier.threads and chosen.size_bytes <= COPY_MAX_BYTES:
        rate = _rate(copier, chosen.below, chosen.size_bytes)
    return MoverTrial(copier.mover, requests_of(copier.mover, sizes), rate)


def _rate(copier: ByteCopier, below: str, size_bytes: int) -> float | None:
    """Return the bytes per second that the store copies; `None` if it refuses."""
    folder = f"_probe-{secrets.token_hex(8)}"
    number = max(1, min(NARROWEST, TRIAL_BYTES // max(size_bytes, 1)))
    try:
        # The first copy meets a refusal, or opens the connection.
        if not copier.offer(below, f"{folder}/first"):
            return None
        began_s = time.monotonic()
        at_once([partial(copier.offer, below, f"{folder}/{copy}") for copy in range(number)], number)
        seconds = time.monotonic() - began_s
    finally:
        with suppress(*JAVA_ERRORS):
            copier.remove_folder(folder)
    return number * size_bytes / seconds if copier.threads else None
