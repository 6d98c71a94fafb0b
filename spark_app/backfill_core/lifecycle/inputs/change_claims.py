"""The author of a change, as an annotation claims it. A claim has no effect: commands only carry it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError
from pydantic_core import from_json

from backfill_api.model import known
from backfill_api.names import CHANGED_BY_ANNOTATION
from backfill_api.plain_text import printable
from backfill_api.spec.change_claim import ChangeClaim
from backfill_core.lifecycle.inputs.token_hash import hash_of

EXAMPLE: Final = '{"by": "anna", "note": "incident 4711", "time": "2026-11-26T21:37:02Z"}'


@dataclass(frozen=True, slots=True)
class NewClaim:
    """A claim that no command carries yet; the defaults are those of no claim."""

    by: str = ""
    note: str = ""
    claim_of: str | None = None
    """Hash of the annotation's value, which the status keeps; `None` without the annotation."""

    error: str = ""
    """Reason why the annotation is ignored; empty if it is not."""


def new_claim(annotations: Mapping[str, str], used: str | None) -> NewClaim:
    """Return the claim of an annotation; a used or unreadable one claims nothing.

    An annotation stays on the object. So it counts for the commands of one decision, and not for the change of another author later.

    Args:
        annotations: Annotations of the object.
        used: Hash of the value that was used last.
    """
    text = annotations.get(CHANGED_BY_ANNOTATION, "").strip()
    if not text:
        return NewClaim()
    claim_of = hash_of(text)
    if claim_of == used:
        return NewClaim(claim_of=claim_of)
    try:
        # A plug-in of a later version may write more fields.
        claim = ChangeClaim.model_validate(known(ChangeClaim, from_json(text, allow_inf_nan=False)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        reason = ".".join((*(str(part) for part in first["loc"]), ""))[:-1]
        return NewClaim(claim_of=claim_of, error=_ignored(f"{reason}: {first['msg']}" if reason else first["msg"]))
    except ValueError:
        return NewClaim(claim_of=claim_of, error=_ignored("it is not JSON"))
    return NewClaim(printable(claim.by), printable(claim.note), claim_of)


def _ignored(reason: str) -> str:
    return f"{CHANGED_BY_ANNOTATION}: {reason}; commands carry no author. Write it as in {EXAMPLE}"
