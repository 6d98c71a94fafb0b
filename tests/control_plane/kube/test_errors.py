"""Responses of an API server, and of proxies before it."""

from __future__ import annotations

from typing import Any

import pytest

from backfill_operator.kube.errors import NotFoundError, RefusedError, UnavailableError, error_of


class TestAnAnswerWithoutAStatus:
    """A load balancer sends it, so the state of the object is unknown."""

    @pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 410, 413, 422])
    @pytest.mark.parametrize(
        "body",
        [{"message": "default backend - 404"}, {"message": "<html>Denied</html>"}, {"reason": "NotFound"}, [], None],
    )
    def test_proxy_response_is_not_an_api_servers(self, status: int, body: Any) -> None:
        """A 404 made a pod, and a Backfill, seem deleted; a 403 became `SpecRefused`."""
        error = error_of("GET", status, body, None)

        assert isinstance(error, UnavailableError)
        assert error.status == 0
        assert str(status) in error.message

    def test_missing_object_is_reported_by_the_api_server(self) -> None:
        """The API server sends a `Status`, or a line of text for an undefined resource."""
        gone = error_of("GET", 404, {"kind": "Status", "reason": "NotFound", "message": "not found"}, None)
        unknown = error_of("GET", 404, {"message": "404 page not found\n"}, None)
        denied = error_of("POST", 403, {"kind": "Status", "reason": "Forbidden", "message": "denied"}, None)

        assert (type(gone), type(unknown), type(denied)) == (NotFoundError, NotFoundError, RefusedError)


class TestTheCauses:
    """A program reads reasons, and a message is for users."""

    @pytest.mark.parametrize(
        ("details", "causes"),
        [
            (
                {"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
                ("NamespaceTerminating",),
            ),
            ({"causes": [{"message": "no reason"}, 7, {"reason": 7}]}, ()),
            ({"causes": "none"}, ()),
            ({}, ()),
            (None, ()),
        ],
    )
    def test_reasons_of_a_status_are_kept(self, details: Any, causes: tuple[str, ...]) -> None:
        """A webhook may answer with any JSON."""
        body = {"kind": "Status", "reason": "Forbidden", "message": "denied", "details": details}

        assert error_of("POST", 403, body, None).causes == causes
