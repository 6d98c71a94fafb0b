"""A request of a spec that the operator refuses, and the error of the first one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A request that the operator refuses: field, value, remedy, and the setting that would allow it."""

    path: str
    """Path of the spec's field."""

    message: str
    """Reason of the refusal, without the path and the value."""

    remedy: str
    """Change of the spec that avoids the refusal."""

    value: str = ""
    """The refused value as JSON, shortened; empty if it is missing, large, or possibly a secret."""

    permission: str = ""
    """Action of an administrator that allows the value, as "add … to …"; empty if no setting allows it."""

    @property
    def problem(self) -> str:
        """Message with the value."""
        return f"{self.message} (got {self.value})" if self.value else self.message

    @property
    def hint(self) -> str:
        """The remedy, and the administrator's action if there is one."""
        return f"{self.remedy}, or have an administrator {self.permission}" if self.permission else self.remedy

    def __str__(self) -> str:
        """Return it on one line."""
        return f"{self.path}: {self.problem}; {self.hint}"


class ManifestRefusedError(Exception):
    """The spec requests something that is not allowed or not possible; treated like a refusal of the API server."""

    def __init__(self, finding: Finding) -> None:
        """Keep the finding."""
        super().__init__(str(finding))
        self.finding = finding

    @property
    def path(self) -> str:
        """Path of the spec's field."""
        return self.finding.path

    @property
    def message(self) -> str:
        """Reason of the refusal, with the value."""
        return self.finding.problem

    @property
    def hint(self) -> str:
        """Remedy, and the administrator's action if there is one."""
        return self.finding.hint


def refuse_first(findings: Iterable[Finding]) -> None:
    """Refuse the spec if there is a finding.

    Raises:
        ManifestRefusedError: with the first finding.
    """
    for finding in findings:
        raise ManifestRefusedError(finding)


def each(*parts: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings of all parts. A part that raises a refusal ends with that finding; the next part follows."""
    for part in parts:
        try:
            yield from part
        except ManifestRefusedError as refused:
            yield refused.finding
