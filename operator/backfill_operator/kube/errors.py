"""The error responses of the API server, one class for each reaction of a caller."""

from __future__ import annotations

from typing import Any, Final

FORBIDDEN: Final = 403
CAUSES_MAX: Final = 64
NO_SUCH_RESOURCE: Final = "404 page not found"
"""The only response of an API server without a `Status`: the resource is not defined."""


class ApiError(Exception):
    """The API server did not execute the request."""

    def __init__(self, status: int, reason: str, message: str, causes: tuple[str, ...] = ()) -> None:
        """Keep the parts of the response's `Status` object, with the reason of each cause; status 0: there was no response."""
        super().__init__(f"{status} {reason}: {message}" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.causes = causes


class NotFoundError(ApiError):
    """404: the object does not exist."""


class AlreadyExistsError(ApiError):
    """409 to a POST: an object of that name exists; a GET shows its owner."""


class ConflictError(ApiError):
    """409 to any other request: the object has changed since the caller read it."""


class GoneError(ApiError):
    """410: a LIST or watch continues from a version that has expired; start again."""


class RefusedError(ApiError):
    """400, 403, 404 for a namespace, 413, 422: the same request will be refused again."""


class UnavailableError(ApiError):
    """No response, 429 or 5xx, after the retries: the request may or may not have been executed."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        """Keep the server's Retry-After, in seconds."""
        super().__init__(status, reason, message)
        self.retry_after = retry_after


class ResponseTooLargeError(ApiError):
    """The response exceeds the size limit."""


def error_of(method: str, status: int, body: Any, retry_after: float | None) -> ApiError:
    """Return the error of a response.

    Args:
        method: HTTP method of the request, because a 409 to a POST has another meaning.
        status: HTTP status of the response.
        body: Its parsed JSON, of any type if a proxy responded.
        retry_after: Its Retry-After, in seconds.
    """
    fields = body if isinstance(body, dict) else {}
    reason = str(fields.get("reason") or "")
    message = str(fields.get("message") or f"the API server answered {status}")[:4096]
    if status == 429 or status >= 500 or status < 400:
        # An API server never redirects, so this response comes from a proxy.
        return UnavailableError(status, reason, message, retry_after)
    if status == 409 and (reason == "AlreadyExists" or (method == "POST" and not reason)):
        return AlreadyExistsError(status, reason, message)
    if fields.get("kind") != "Status" and not message.startswith(NO_SUCH_RESOURCE):
        # A load balancer's 404 does not mean that the object is missing, and its 403 not that the pod is forbidden.
        return UnavailableError(0, "NoAnswer", f"{status} from a proxy before the API server: {message}"[:4096])
    kinds: dict[int, type[ApiError]] = {404: NotFoundError, 409: ConflictError, 410: GoneError}
    return kinds.get(status, RefusedError)(status, reason, message, _causes(fields.get("details")))


def _causes(details: Any) -> tuple[str, ...]:
    """Return the reasons of the causes in the details of a `Status`; a webhook may send any JSON."""
    causes = details.get("causes") if isinstance(details, dict) else None
    reasons = (
        (cause.get("reason") for cause in causes[:CAUSES_MAX] if isinstance(cause, dict))
        if isinstance(causes, list)
        else ()
    )
    return tuple(reason for reason in reasons if isinstance(reason, str))
