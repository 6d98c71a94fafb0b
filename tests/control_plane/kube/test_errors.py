"""Answers of an API server, and those of what stands before it."""

from __future__ import annotations

from typing import Any

import pytest

from backfill_operator.kube.errors import NotFoundError, RefusedError, UnavailableError, error_of


class TestAnAnswerWithoutAStatus:
    """A load balancer gives it, so nothing is known of the object."""

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 422])
    @pytest.mark.parametrize(
        "body",
        [{"message": "default backend - 404"}, {"message": "<html>Denied</html>"}, {"reason": "NotFound"}, [], None],
    )
    def test_proxys_answer_is_none_of_the_api_servers(self, status: int, body: Any) -> None:
        """A 404 took a pod, and a Backfill, for deleted; a 403 was `SpecRefused`."""
        error = error_of("GET", status, body, None)

        assert isinstance(error, UnavailableError)
        assert error.status == 0
        assert str(status) in error.message

    def test_objects_absence_is_believed(self) -> None:
        """The API server says it as a `Status`, or, of a resource that it does not know, as a line."""
        gone = error_of("GET", 404, {"kind": "Status", "reason": "NotFound", "message": "not found"}, None)
        unknown = error_of("GET", 404, {"message": "404 page not found\n"}, None)
        denied = error_of("POST", 403, {"kind": "Status", "reason": "Forbidden", "message": "denied"}, None)

        assert (type(gone), type(unknown), type(denied)) == (NotFoundError, NotFoundError, RefusedError)
