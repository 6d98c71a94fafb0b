"""Who fills a target: each job says so in its first commit, and a second one is refused unless both add on purpose.

The claims stand in a domain of the table that every job's first commit writes, so that Delta itself lets only one of
two first commits pass that did not see each other (ADR 0005).
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
    """What one job says of a target."""

    domain: str
    """Domain of the job's state in the table."""

    job_id: str
    shares: bool | None
    """May other jobs add to the target too? None: an earlier release began the job, and did not say."""

    finished: bool = False
    begins: bool = False
    """Has the job no state in the target yet?"""


def claims_in(domains: Mapping[str, str]) -> tuple[Claim, ...]:
    """Read the claims of all jobs that have a state among a table's domains; what cannot be read is a claim too."""
    said: Mapping[str, Any] = _mapping(domains.get(OWNER_DOMAIN, "")).get("jobs", {})
    found = []
    for domain, text in sorted(domains.items()):
        if domain.startswith(PREFIX) and domain != OWNER_DOMAIN:
            state = _mapping(text)
            shares = said.get(domain, {}).get("shares")
            found.append(Claim(domain, str(state.get("jobId", domain)), shares, state.get("finished") is True))
    return tuple(found)


def check_claim(ours: Claim, claims: Iterable[Claim], *, path: str) -> None:
    """Refuse a target that another job fills, unless each of them says that it adds to what is there.

    A job that is finished does not mind. A job that goes on bears jobs of earlier releases, which did not say.

    Raises:
        TargetTakenError: names the other job.
    """
    for other in _others(ours, claims):
        if other.shares is False or (ours.begins and not ours.shares):
            raise TargetTakenError(
                f"{path} is filled by job {other.job_id!r}, which is not finished; this is job {ours.job_id!r}.",
                hint="Give each job a target of its own, or wait for that job. Append and Changelog jobs may fill one target "
                "together when each of them says existingRows: Keep in its spec.target.",
            )


def claimed(ours: Claim, claims: Iterable[Claim], stored: str | None) -> str | None:
    """Return what to store of all claims once ours is made; None where that stands there already."""
    others = _others(ours, claims)
    jobs = {other.domain: {"jobId": other.job_id, "shares": other.shares is not False} for other in others}
    jobs[ours.domain] = {"jobId": ours.job_id, "shares": bool(ours.shares or others)}
    there = _mapping(stored or "").get("jobs", {})
    if not ours.begins and jobs.items() <= there.items():
        return None
    return json.dumps({"format": FORMAT, "jobs": jobs}, separators=(",", ":"), sort_keys=True)


def released(domain: str, stored: str | None) -> str | None:
    """Return what to store of all claims once a job's is taken back; None where no job is left."""
    jobs = {name: one for name, one in _mapping(stored or "").get("jobs", {}).items() if name != domain}
    return json.dumps({"format": FORMAT, "jobs": jobs}, separators=(",", ":"), sort_keys=True) if jobs else None


def _others(ours: Claim, claims: Iterable[Claim]) -> list[Claim]:
    return [one for one in claims if one.domain != ours.domain and not one.finished]


def _mapping(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
