"""Tables, columns and transform of a receipt, so that a later comparison can tell whether it may build on it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from backfill_core.protocol.receipt import ReceiptBasis
from backfill_spark.delta.log import LOG_ERRORS, table_at
from backfill_spark.ports.sink import SupportsCopies
from backfill_spark.ports.source import SupportsFiles

if TYPE_CHECKING:
    from backfill_spark.opening.tables import Tables

HASH_CHARACTERS = 16


def basis_of(tables: Tables, source_version: int | None, target_version: int) -> ReceiptBasis | None:
    """Return the basis of a receipt of two versions; `None` if a side has no files, or its log cannot be read."""
    source, sink, spec = tables.source, tables.sink, tables.spec
    if source_version is None or not (isinstance(source, SupportsFiles) and isinstance(sink, SupportsCopies)):
        return None
    try:
        of_source = table_at(tables.spark, source.path, source_version)
        of_target = table_at(tables.spark, sink.path, target_version)
    except LOG_ERRORS:
        return None
    columns = [(table.schema, table.partitions) for table in (of_source, of_target)]
    transform: list[object] = [
        list(spec.transform.select or ()),
        spec.transform.where,
        list(tables.key),
        spec.write_mode,
    ]
    if spec.transform.set:
        transform += [sorted(map(list, spec.transform.set.items())), spec.transform.set_where]
    return ReceiptBasis(of_source.table_id, of_target.table_id, _hash(columns), _hash(transform))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:HASH_CHARACTERS]
