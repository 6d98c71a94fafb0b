"""Answers of the HTTP API for PromQL (`/api/v1/query`): only one finite number is a measurement."""

from __future__ import annotations

import json
import math
from typing import Any, Final

from backfill_api.crd.explain import shown
from backfill_core.protocol.events import QueryAnswered

BODY_BYTES_MAX: Final = 64 * 1024
"""Largest answer that is read; one number with its labels takes less than 1 KiB."""

OK: Final = 200
REDIRECTS: Final = range(300, 400)
WITH_A_REASON: Final = (400, 422, 503)
"""Statuses with which the API reports an error of the query as JSON."""

NO_JSON: Final = "the answer is not of the API /api/v1/query"


def read_answer(status: int, body: bytes) -> QueryAnswered:
    """Return the number of an answer, or the reason why it has none.

    Args:
        status: Status of HTTP; redirects are not followed.
        body: At most one byte more than `BODY_BYTES_MAX`.
    """
    if status in REDIRECTS:
        return QueryAnswered(None, f"HTTP {status}: a redirect, which is not followed")
    if status != OK and status not in WITH_A_REASON:
        return QueryAnswered(None, f"HTTP {status}")
    if len(body) > BODY_BYTES_MAX:
        return QueryAnswered(None, f"the answer is larger than {BODY_BYTES_MAX // 1024} KiB")
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return QueryAnswered(None, NO_JSON if status == OK else f"HTTP {status}")
    if status != OK or _field(answer, "status") != "success":
        error = _field(answer, "error")
        return QueryAnswered(None, f"HTTP {status}" + (f": {shown(error)}" if isinstance(error, str) else ""))
    return _number(_field(_field(answer, "data"), "resultType"), _field(_field(answer, "data"), "result"))


def _number(kind: Any, result: Any) -> QueryAnswered:
    if kind == "vector" and isinstance(result, list):
        if not result:
            return QueryAnswered(None, "the expression returns no series")
        if len(result) > 1:
            return QueryAnswered(None, f"the expression returns {len(result):,} series: use max(…) or sum(…)")
        result = _field(result[0], "value")
    elif kind != "scalar":
        what = f"a {kind}" if kind in ("matrix", "string") else "no number"
        return QueryAnswered(
            None, f"the expression returns {what}: use one that returns one number" if kind else NO_JSON
        )
    text = result[1] if isinstance(result, list) and len(result) == 2 else None
    try:
        value = float(text) if isinstance(text, str) else None
    except ValueError:
        value = None
    if value is None:
        return QueryAnswered(None, NO_JSON)
    return QueryAnswered(value) if math.isfinite(value) else QueryAnswered(None, f"the expression returns {value}")


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None
