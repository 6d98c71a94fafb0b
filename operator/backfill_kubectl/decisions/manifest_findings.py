"""Checks a file of manifests as a cluster does: the CRD's schema and rules, the admission policy, the operator's limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from backfill_api.load import SpecError, load_backfill
from backfill_api.names import KIND
from backfill_core.cluster_rules.findings import findings

DOCUMENTS_MAX: Final = 1000
SEPARATOR: Final = re.compile(r"^---(?=\s|$)", re.MULTILINE)
CHARACTERS_MAX: Final = 4 * 1_048_576


@dataclass(frozen=True, slots=True)
class ManifestFinding:
    """A request that a cluster would refuse, or a document that cannot be read."""

    backfill: str
    """Name of the Backfill; empty for the file itself."""

    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        """Return it on one line."""
        text = f"{self.path}: {self.message}" if self.path else self.message
        return f"{text}; {self.hint}" if self.hint else text


@dataclass(frozen=True, slots=True)
class LintedFile:
    """Result of one file."""

    backfills: int
    others: int
    """Documents of other kinds, which are not checked."""

    findings: tuple[ManifestFinding, ...]


def lint(text: str) -> LintedFile:
    """Return the findings of a file with one or more documents, in their order."""
    if len(text) > CHARACTERS_MAX:
        return LintedFile(0, 0, (ManifestFinding("", "", "the file is longer than 4 MiB", "give a file of manifests"),))
    documents = SEPARATOR.split(text)
    backfills = others = 0
    found: list[ManifestFinding] = []
    for document in documents[:DOCUMENTS_MAX]:
        kind, name = _identity(document)
        if kind is None and not document.strip("-\n\r \t"):
            continue
        if kind is not None and kind not in (KIND, f"{KIND}List", "List"):
            others += 1
            continue
        backfills += 1
        found += _of_document(document, name)
    if not backfills:
        found.append(ManifestFinding("", "", f"has no {KIND}", f"give a file with kind: {KIND}"))
    return LintedFile(backfills, others, tuple(found))


def _identity(document: str) -> tuple[str | None, str]:
    """Return kind and name of a document; `None` if it cannot be read, so that the parser explains why."""
    try:
        parsed: Any = yaml.compose(document, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None, ""
    fields = _scalars(parsed)
    metadata = next((value for key, value in _pairs(parsed) if key == "metadata"), None)
    return fields.get("kind"), _scalars(metadata).get("name", "")


def _pairs(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, yaml.MappingNode):
        yield from ((str(key.value), value) for key, value in node.value)


def _scalars(node: Any) -> Mapping[str, str]:
    return {key: str(value.value) for key, value in _pairs(node) if isinstance(value, yaml.ScalarNode)}


def _of_document(document: str, name: str) -> list[ManifestFinding]:
    try:
        backfill = load_backfill(document)
    except SpecError as error:
        return [ManifestFinding(name, "", str(each)) for each in error.errors]
    return [
        ManifestFinding(name or backfill.metadata.name, each.path, each.problem, each.hint)
        for each in findings(backfill.spec)
    ]
