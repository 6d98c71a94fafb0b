"""Ownership of a target: each job claims it in its first commit. A second job is refused unless both jobs opt in to sharing.

The claims are stored in a domain of the table that every job's first commit writes. So if two first commits did not see
each other, Delta itself accepts only one of them (ADR 0005).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from backfill_core.errors import TargetTakenError

PREFIX = "backfill."
OWNER_DOMAIN = f"{PREFIX}owner"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim of one job to a target."""

    domain: str
    """Domain of the job's state in the table."""

    job_id: str
    shares: bool | None
    """True if other jobs may add to the target too; `None` for a job of an earlier release, which recorded no choice."""

    finished: bool = False
    begins: bool = False
    """True if the job has no state in the target yet."""

    columns: frozenset[str] = frozenset()
    """Columns that the job fills in rows of other writers; empty if it writes rows of its own."""


def claims_in(domains: Mapping[str, str]) -> tuple[Claim, ...]:
    """Read the claims of all jobs that have a state among a table's domains; an unreadable state also counts as a claim."""
    recorded: Mapping[str, Any] = _mapping(domains.get(OWNER_DOMAIN, "")).get("jobs", {})
    claims = []
    for domain, text in sorted(domains.items()):
        if domain.startswith(PREFIX) and domain != OWNER_DOMAIN:
            state = _mapping(text)
            shares = recorded.get(domain, {}).get("shares")
            claims.append(Claim(domain, str(state.get("jobId", domain)), shares, state.get("finished") is True))
    return tuple(claims)


def check_claim(ours: Claim, claims: Iterable[Claim], *, path: str) -> None:
    """Refuse a target that another job fills, unless each of them adds to existing rows.

    A finished job does not block others. A resumed job tolerates jobs of earlier releases, which recorded no choice.

    Raises:
        TargetTakenError: the message contains the other job.
    """
    for other in _others(ours, claims):
        both = sorted(ours.columns & other.columns)
        if both:
            raise TargetTakenError(
                f"column {both[0]} of {path} is filled by job {other.job_id!r}, which is not finished; this is job {ours.job_id!r}.",
                hint="Wait for that job, or abandon it with `backfill release --force`.",
            )
        if other.shares is False or (ours.begins and not ours.shares):
            raise TargetTakenError(
                f"{path} is filled by job {other.job_id!r}, which is not finished; this is job {ours.job_id!r}.",
                hint="Give each job a separate target, or wait for that job. Append and Changelog jobs can share a target "
                "if each of them sets existingRows: Keep in its spec.target.",
            )


def claimed(ours: Claim, claims: Iterable[Claim], stored: str | None) -> str | None:
    """Return the claims to store once ours is added; `None` if the stored claims already contain it."""
    others = _others(ours, claims)
    jobs = {other.domain: {"jobId": other.job_id, "shares": other.shares is not False} for other in others}
    jobs[ours.domain] = {"jobId": ours.job_id, "shares": bool(ours.shares or others)}
    existing = _mapping(stored or "").get("jobs", {})
    if not ours.begins and jobs.items() <= existing.items():
        return None
    return json.dumps({"format": FORMAT, "jobs": jobs}, separators=(",", ":"), sort_keys=True)


def released(domain: str, stored: str | None) -> str | None:
    """Return the claims to store once a job's claim is removed; `None` if no job is left."""
    jobs = {name: job for name, job in _mapping(stored or "").get("jobs", {}).items() if name != domain}
    return json.dumps({"format": FORMAT, "jobs": jobs}, separators=(",", ":"), sort_keys=True) if jobs else None


def _others(ours: Claim, claims: Iterable[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim.domain != ours.domain and not claim.finished]


def _mapping(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
