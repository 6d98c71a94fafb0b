"""Delay before the next attempt."""

from __future__ import annotations

import hashlib

from backfill_core.lifecycle.inputs.policy import Policy

JITTER_PER_CENT = 20
"""Subtracted, never added, because `maxSeconds` is a limit. A thousand jobs from one lost node then do not return at once."""

_DOUBLINGS_MAX = 32


def backoff_ms(policy: Policy, uid: str, attempt: int, failures: int) -> int:
    """Return the delay in milliseconds after an attempt: doubled for each failure, up to the maximum, and deterministic."""
    doubled_s = policy.backoff_initial_s << min(max(failures - 1, 0), _DOUBLINGS_MAX)
    digest = hashlib.sha256(f"{uid}/{attempt}".encode(errors="replace")).digest()
    jitter = int.from_bytes(digest[:2]) * JITTER_PER_CENT // 65_536
    return min(doubled_s, policy.backoff_max_s) * 10 * (100 - jitter)
