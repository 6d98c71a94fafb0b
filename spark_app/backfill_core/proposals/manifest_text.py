"""The text of a proposed manifest: YAML with a comment for each decision."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from backfill_api.crd.editor_schema import modeline
from backfill_api.model import member_of
from backfill_api.names import API_VERSION, KIND
from backfill_core.proposals.propose import Proposal
from backfill_core.proposals.seen import Place, Request

PLAIN: Final = re.compile(r"[A-Za-z./][A-Za-z0-9_./-]*")
NOT_TEXT: Final = re.compile(r"(?i)true|false|yes|no|on|off|y|n|null|\.(nan|inf)|\.+")
"""Words that YAML reads as another type."""

ESCAPED: Final = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
"""Characters that JSON has as they are, and that YAML does not accept or reads as a line break."""

COLUMNS_MAX: Final = 30
"""Columns that a comment lists."""

COLUMN: Final = 42
"""Column in which comments start."""


def manifest_text(request: Request, proposal: Proposal, *, schema: str, file: str) -> str:
    """Return the YAML of a proposal.

    Args:
        request: Name and locations.
        proposal: Decisions and their reasons.
        schema: Path of the JSON Schema, relative to the file.
        file: Name of the file, for the commands in its first lines.
    """
    return "\n".join(_lines(request, proposal, schema, file)) + "\n"


def _lines(request: Request, proposal: Proposal, schema: str, file: str) -> Iterator[str]:
    yield modeline(schema)
    yield "# Proposed by `backfill init`: each comment gives the reason. docs/fields.md describes all fields."
    yield f"#   backfill plan -f {file}"
    yield f"#   backfill run -f {file}"
    yield f"apiVersion: {API_VERSION}"
    yield f"kind: {KIND}"
    yield "metadata:"
    yield f"  name: {scalar(request.name)}"
    yield "spec:"
    yield from _source(request, proposal)
    yield from _transform(proposal)
    yield from _target(request, proposal)
    yield "  strategy:"
    yield _commented(f"    type: {proposal.strategy.value}", proposal.strategy.reason)
    if proposal.rows_per_second is None:
        yield _commented("  throttle: {}", proposal.throttle_reason)
    else:
        yield "  throttle:"
        yield _commented(f"    rowsPerSecond: {proposal.rows_per_second}", proposal.throttle_reason)
    yield _commented("  after: Exit", "Follow continues with new changes until you stop the job")
    yield _commented("  verify: Final", "compares source and target at the end")


def _source(request: Request, proposal: Proposal) -> Iterator[str]:
    yield "  source:"
    yield from _place(request.source)
    if _keyed_by_source(request):
        line = f"      key: {_flow(proposal.key)}" if proposal.key else "      # key: []"
        yield _commented(line, proposal.key_reason)


def _keyed_by_source(request: Request) -> bool:
    return request.source.type == request.target.type


def _transform(proposal: Proposal) -> Iterator[str]:
    if not proposal.select:
        shown = ", ".join(map(scalar, proposal.columns[:COLUMNS_MAX]))
        more = ", …" if len(proposal.columns) > COLUMNS_MAX else ""
        yield _commented("  # transform:", "without it the target gets all columns and rows")
        yield f"  #   select: [{shown}{more}]"
        yield _commented("  #   where: …", "a condition in SQL")
        return
    yield "  transform:"
    yield _commented("    select:", proposal.select_reason)
    yield from (f"      - {scalar(line)}" for line in proposal.select)
    yield from (f"      # {note}" for note in proposal.notes)


def _target(request: Request, proposal: Proposal) -> Iterator[str]:
    yield "  target:"
    yield from _place(request.target)
    if proposal.write_mode is not None:
        yield _commented(f"      writeMode: {proposal.write_mode.value}", proposal.write_mode.reason)
    if proposal.key and not _keyed_by_source(request):
        yield _commented(f"      key: {_flow(proposal.key)}", proposal.key_reason)
    line = f"      partitionBy: {_flow(proposal.partitions)}" if proposal.partitions else "      # partitionBy: []"
    yield _commented(line, proposal.partitions_reason)


def _place(place: Place) -> Iterator[str]:
    yield f"    type: {place.type}"
    yield f"    {member_of(place.type)}:"
    yield from (f"      {name}: {scalar(value)}" for name, value in place.fields)


def _flow(names: Sequence[str]) -> str:
    return f"[{', '.join(map(scalar, names))}]"


def scalar(text: str) -> str:
    """Return a string as YAML, in quotes where a plain one would have another meaning."""
    plain = PLAIN.fullmatch(text) and not NOT_TEXT.fullmatch(text)
    return text if plain else ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def _commented(line: str, comment: str) -> str:
    return f"{line:<{COLUMN}}  # {comment}"
