"""A manifest for a new job, proposed from the source: key, strategy, partitions, write mode and limit, each with its reason."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from backfill.job import Backfill
from backfill_api.crd.editor_schema import SCHEMA_NAME
from backfill_api.load import SpecError, load_backfill
from backfill_api.model import member_of
from backfill_api.names import API_VERSION, KIND
from backfill_core.errors import InvalidSpecError
from backfill_core.proposals.manifest_text import manifest_text
from backfill_core.proposals.propose import propose
from backfill_core.proposals.seen import Place, Request, SourceSeen

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Place", "Probe", "Request", "SourceSeen", "draft", "name_of", "place_of"]

TOPIC: Final = re.compile(r"kafka://([^/\s]+)/([^/\s]+)")
CATALOG: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
ABSOLUTE: Final = re.compile(r"(/|~|[A-Za-z][A-Za-z0-9+.-]*:)")


def place_of(text: str, folder: Path) -> Place:
    """Return a location as the fields of a manifest in a folder.

    Args:
        text: A path, a URI, a name in the catalog (`shop.orders`) or `kafka://host:port/topic`. A path is relative to
            the working directory.
        folder: Folder of the manifest.
    """
    topic = TOPIC.fullmatch(text)
    if topic is not None:
        return Place("Kafka", (("bootstrapServers", topic[1]), ("topic", topic[2])))
    if CATALOG.fullmatch(text) and not Path(text).exists():
        return Place("Delta", (("table", text),))
    if ABSOLUTE.match(text):
        return Place("Delta", (("path", text),))
    relative = os.path.relpath(Path(text).absolute(), folder.absolute())
    return Place("Delta", (("path", relative if relative.startswith("../") else f"./{relative}"),))


def name_of(target: Place) -> str:
    """Return a name for the job, from the last part of its target."""
    name = re.sub(r"[^a-z0-9]+", "-", target.last_part.lower()).strip("-")
    return name[:63].rstrip("-") or "backfill"


class Probe(Backfill):
    """A job whose source is read for a proposal; it is never run."""

    @classmethod
    def between(cls, request: Request, folder: Path) -> Self:
        """Return the probe of a source and a target.

        Args:
            request: Name and locations.
            folder: Base of relative paths.

        Raises:
            InvalidSpecError: a location is invalid.
        """
        strategy = "SourceSplits" if request.source.type == "Kafka" else "Replica"
        ends = {
            name: {"type": end.type, member_of(end.type): dict(end.fields)}
            for name, end in (("source", request.source), ("target", request.target))
        }
        spec = {**ends, "strategy": {"type": strategy}}
        document = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": request.name}, "spec": spec}
        return cls.of(document, folder=folder)

    def source_facts(
        self, spark: SparkSession | None = None, *, on_step: Callable[[str], None] = lambda _: None
    ) -> SourceSeen:
        """Return the facts of the source on which a proposal depends; writes nothing.

        Args:
            spark: The caller's session; `None` for an embedded one.
            on_step: Called before each step.

        Raises:
            BackfillError: the source cannot be read.
        """
        from backfill_spark.driver.source_facts import read_facts

        return self._with(spark, partial(read_facts, self.spec.source, settings=self._settings, starting=on_step))


def draft(request: Request, seen: SourceSeen, *, file: str) -> str:
    """Return the text of a manifest that `backfill plan` accepts.

    Raises:
        InvalidSpecError: the given values do not work together, such as a strategy that the source does not support.
    """
    text = manifest_text(request, propose(seen, request), schema=f"./{SCHEMA_NAME}", file=file)
    try:
        load_backfill(text)
    except SpecError as error:
        raise InvalidSpecError(str(error)) from error
    return text
