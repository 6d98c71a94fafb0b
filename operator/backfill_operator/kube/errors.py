"""What the API server can answer instead of an object, one class for each thing that a caller does differently."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """The API server did not do it."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        """Keep the parts of the answer's `Status` object; status 0: there was no answer."""
        super().__init__(f"{status} {reason}: {message}" if status else message)
        self.status = status
        self.reason = reason
        self.message = message


class NotFoundError(ApiError):
    """404: it is not there."""


class AlreadyExistsError(ApiError):
    """409 to a POST: an object of that name is there; whose it is, a GET must say."""


class ConflictError(ApiError):
    """409 to anything else: the object is not what the caller saw; look again."""


class GoneError(ApiError):
    """410: a LIST or watch asks for a past that is forgotten; begin anew."""


class RefusedError(ApiError):
    """400, 403, 404 of a namespace, 413, 422: the same request will be refused again."""


class UnavailableError(ApiError):
    """No answer, 429 or 5xx, after the retries: whether it was done is not known; look again later."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        """Keep what the server said about when to come back."""
        super().__init__(status, reason, message)
        self.retry_after = retry_after


class ResponseTooLargeError(ApiError):
    """The answer is larger than the cap: nothing of ours is that large."""


def error_of(method: str, status: int, body: Any, retry_after: float | None) -> ApiError:
    """Return the error that an answer stands for.

    Args:
        method: Of the request: a 409 says something else to a POST.
        status: Of the answer.
        body: Its JSON; anything, when something that is not an API server answered.
        retry_after: Seconds of its Retry-After.
    """
    words = body if isinstance(body, dict) else {}
    reason = str(words.get("reason") or "")
    message = str(words.get("message") or f"the API server answered {status}")[:4096]
    if status == 429 or status >= 500:
        return UnavailableError(status, reason, message, retry_after)
    if status == 409 and (reason == "AlreadyExists" or (method == "POST" and not reason)):
        return AlreadyExistsError(status, reason, message)
    kinds: dict[int, type[ApiError]] = {404: NotFoundError, 409: ConflictError, 410: GoneError}
    return kinds.get(status, RefusedError)(status, reason, message)
