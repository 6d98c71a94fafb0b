"""Source rows in key order, for a strategy that reads them range by range."""

from __future__ import annotations

from backfill_api.spec.spec import BackfillSpec
from backfill_core.errors import InvalidSpecError
from backfill_core.positions.key_scan import KeyScan
from backfill_core.positions.vnode_positions import KeySpace
from backfill_spark.ports.abilities import ability
from backfill_spark.ports.source import Source, SupportsKeyRanges


def key_line(source: Source, spec: BackfillSpec, *, begins: bool) -> KeyScan:
    """Return the rows in the order in which the strategy reads them: by the columns that it names, then by the key.

    Args:
        source: The open source.
        spec: Names the columns.
        begins: True for a new job; only then is a slow order rejected.

    Raises:
        InvalidSpecError: a field is invalid, or the ranges would read the files too often; names the field.
    """
    params, key = spec.strategy.params, spec.source.params.key
    member, source_member = f"spec.strategy.{spec.strategy.member}", f"spec.source.{spec.source.member}"
    start = spec.source.params
    if begins and (start.start_version, start.start_ms) != (None, None):
        named = "a timestamp" if start.start_version is None else f"version {start.start_version}"
        raise InvalidSpecError(
            f"{source_member} names {named}, and the strategy reads the newest version.",
            hint="Leave it out, or use another strategy.",
        )
    ordered = {column for column, _ in params.read_order}
    columns = (*params.read_order, *((column, False) for column in key if column not in ordered))
    if not columns:
        raise InvalidSpecError(
            f"{member}.orderBy is empty, and the source has no key.", hint="Name the columns to order by."
        )
    ranges = ability(source, SupportsKeyRanges)
    order = ranges.key_order(columns, field=f"{member}.orderBy" if params.read_order else f"{source_member}.key")
    distribution = key or tuple(column for column, _ in columns)
    line = ranges.key_line(KeySpace(order, tuple(distribution), params.vnodes), cut_rows=params.rows_per_cut)
    most = params.read_amplification_max
    if begins and most is not None and line.read_amplification > most:
        names = ", ".join(column.name for column in order.columns)
        raise InvalidSpecError(
            f"{member}.maxReadAmplification is {most}, and reading in the order of ({names}) reads each file of the "
            f"source {line.read_amplification:.1f} times.",
            hint=f"Cluster the source by {order.columns[0].name}, use another strategy, or raise maxReadAmplification.",
        )
    return line
