"""Making an attempt: on record first, then its objects; what is in the way; what the API server said."""

from __future__ import annotations

from backfill_api.names import RESTART_ANNOTATION
from backfill_api.status.conditions import Phase
from backfill_api.status.status import TOKEN_HASHES_MAX, Attempt, AttemptKind, Control
from backfill_core.lifecycle.inputs.context import Sight
from backfill_core.lifecycle.naming import driver_name
from backfill_core.lifecycle.observation import LaunchDriver, LaunchFailed, WriteStatusFirst
from backfill_core.lifecycle.status import condition_details as details
from backfill_core.lifecycle.status.conditions import Face
from backfill_core.lifecycle.steps.commands import TOKEN_CHARACTERS_MAX
from backfill_core.lifecycle.steps.step import Turn, clear_away, look_live, stuck_ms

CONFLICT, FORBIDDEN = 409, 403
REFUSED_FOR_GOOD = frozenset({400, 413, 422})
"""The same objects will be refused again; only another spec, or another cluster, changes that."""

REFUSED_FOR_NOW = frozenset({401, 403, 404, 405})

NOT_THE_PODS_FAULT = ("error looking up service account", "cannot create resource", "is being terminated")
"""In what words a 403 says that an account is missing, that the operator itself may not, that the namespace goes."""

SOON_MS, QUOTA_MS, PERSON_MS, SPEC_MS = 5_000, 10_000, 30_000, 300_000
"""When to try again: after a server's trouble; for quota; after a person may have mended it; under the same spec."""


def plan_attempt(sight: Sight) -> Turn:
    """Put the next attempt on record, and launch it.

    Only the first attempt trusts the cache: its name is the wall. Any later one looks live, because the attempts before
    it have other names.
    """
    status = sight.status
    last = max(
        [status.attempts, status.attempt.number if status.attempt else 0, *(one.number for one in status.history)]
    )
    number = last + 1
    if number > 1 and not sight.seen.live:
        return look_live(sight, driver_name(sight.seen.name, number))
    kind: AttemptKind = "Plan" if sight.plan_first else "Run"
    attempt = Attempt(
        number=number, kind=kind, state="Planned", pod_name=driver_name(sight.seen.name, number),
        start_time=sight.moment, token_hashes=(sight.seen.token_hash,) if sight.seen.token_hash else None,
    )  # fmt: skip
    control = status.control or Control()
    # Whatever asked for a restart before there was anything to restart has got it.
    token = sight.seen.annotations.get(RESTART_ANNOTATION, "")[:TOKEN_CHARACTERS_MAX]
    control = control.model_copy(update={"restart_token": token or control.restart_token})
    status = status.model_copy(
        update={
            "attempt": attempt,
            "attempts": number,
            "control": _asked(sight, control),
            "start_time": status.start_time or sight.moment,
            "completion_time": None,
        }
    )
    return Turn(status, _face(sight, attempt), (WriteStatusFirst(), _launch(sight, attempt)), SOON_MS)


def launch(sight: Sight, attempt: Attempt) -> Turn:
    """Launch an attempt that is on record and has no pod yet; as often as it takes, its name is always the same."""
    if sight.rules.refused:
        return _waits(sight, attempt, Face.stands_still("Pending", "SpecRefused", sight.rules.refused))
    blocked = blocked_by(sight)
    if blocked is not None:
        return blocked
    failed = sight.seen.launch_failed
    if failed is None or failed.attempt != attempt.number:
        return _again(sight, attempt, _face(sight, attempt))
    if failed.status == CONFLICT and failed.reason != "NameCollision":
        if not sight.seen.live:
            return look_live(sight)
        return _again(sight, attempt, _face(sight, attempt))
    face, wait_ms = _told(failed)
    left_ms = min(failed.at_ms + wait_ms - sight.now_ms, wait_ms)
    edited = sight.seen.generation != sight.seen.status.observed_generation
    if left_ms <= 0 or edited:
        return _again(sight, attempt, face)
    return _waits(sight, attempt, face).within(left_ms)


def blocked_by(sight: Sight) -> Turn | None:
    """Return what to do about pods that must go before a driver may be made; None: there are none."""
    phase: Phase = "Retrying" if sight.status.history else "Pending"
    if sight.strays:
        names = ", ".join(pod.name for pod in sight.strays[:3])
        face = Face.moves(phase, "DriverStopping", f"{names} must end first")
        away = clear_away(sight, sight.strays, grace_s=sight.rules.drain_s)
        return Turn(sight.status, _bare(sight, face), away, SOON_MS).within(stuck_ms(sight, sight.strays))
    if not sight.strangers:
        return None
    pod = min(sight.strangers, key=lambda one: (one.deletion_ms is not None, one.name))
    if pod.deletion_ms is not None:
        face = Face.moves(phase, "DriverStopping", f"{pod.name} of an earlier Backfill must end first")
        return Turn(sight.status, _bare(sight, face), (), SOON_MS)
    words = f"pod {pod.name} belongs to somebody else; delete it, or give the Backfill another name"
    return Turn(sight.status, _bare(sight, Face.stands_still("Pending", "NameCollision", words)), (), PERSON_MS)


def _told(failed: LaunchFailed) -> tuple[Face, int]:
    """Return how the API server's answer looks, and when to ask again."""
    words = failed.message or failed.reason or f"HTTP {failed.status}"
    if failed.status == CONFLICT:
        return Face.stands_still("Pending", "NameCollision", words), PERSON_MS
    if failed.status == FORBIDDEN and "quota" in words.lower():
        return Face.moves("Pending", "QuotaExceeded", words), QUOTA_MS
    if failed.status in REFUSED_FOR_GOOD or (failed.status == FORBIDDEN and not _mendable(words)):
        return Face.stands_still("Pending", "SpecRefused", words), SPEC_MS
    if failed.status in REFUSED_FOR_NOW:
        return Face.stands_still("Pending", "LaunchRefused", words), PERSON_MS
    return Face.moves("Launching", "LaunchRefused", words), SOON_MS


def _mendable(words: str) -> bool:
    """Does a 403 speak of what surrounds the job? Else it speaks of its pod: PodSecurity, a LimitRange, a webhook."""
    return any(one in words.lower() for one in NOT_THE_PODS_FAULT)


def _again(sight: Sight, attempt: Attempt, face: Face) -> Turn:
    attempt = _known_by(attempt, sight.seen.token_hash)
    turn = _waits(sight, attempt, face)
    # On record already, but perhaps no longer: without the fence a stale look would bring a dead attempt back.
    return turn.and_do(WriteStatusFirst(), _launch(sight, attempt)).within(SOON_MS)


def _known_by(attempt: Attempt, token_hash: str) -> Attempt:
    """Put on record that its Secret may hold another token: the operator that made the first one may be no more.

    An attempt without any is of an earlier version, and so is its Secret, which must stay good.
    """
    known = attempt.token_hashes
    if not known or not token_hash or token_hash in known:
        return attempt
    return attempt.model_copy(update={"token_hashes": (*known, token_hash)[-TOKEN_HASHES_MAX:]})


def _waits(sight: Sight, attempt: Attempt, face: Face) -> Turn:
    control = _asked(sight, sight.status.control or Control())
    status = sight.status.model_copy(update={"attempt": attempt, "control": control})
    return Turn(status, _bare(sight, face), (), PERSON_MS)


def _asked(sight: Sight, control: Control) -> Control:
    """An attempt starts with what is wanted now; nobody has to be told."""
    wanted = sight.wanted
    return control.model_copy(update={"paused": wanted.paused, "rows_per_second": wanted.rows_per_second})


def _launch(sight: Sight, attempt: Attempt) -> LaunchDriver:
    wanted = sight.wanted
    return LaunchDriver(
        attempt.number, attempt.kind, wanted.paused, wanted.rows_per_second, token_hashes=attempt.token_hashes or ()
    )


def _face(sight: Sight, attempt: Attempt) -> Face:
    plans = attempt.kind == "Plan"
    return _bare(sight, Face.moves("Pending", "Planning") if plans else Face.moves("Launching", "Launching"))


def _bare(sight: Sight, face: Face) -> Face:
    return face.showing(details.without_driver(sight))
