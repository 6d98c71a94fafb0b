"""Answers of a monitoring system: only one finite number is a measurement, and every other answer has a reason."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backfill_core.pacing.query_answer import BODY_BYTES_MAX, read_answer


def vector(*values):
    """Return an answer with a series for each value."""
    series = [{"metric": {"host": str(number)}, "value": [1.5, value]} for number, value in enumerate(values)]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}}).encode()


def of_type(kind, result):
    """Return an answer with a result of another type."""
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}}).encode()


class TestOneNumber:
    @pytest.mark.parametrize("body", [vector("0.5"), of_type("scalar", [1.5, "0.5"])], ids=["vector", "scalar"])
    def test_is_a_measurement(self, body):
        """The API writes numbers as strings."""
        answer = read_answer(200, body)

        assert (answer.value, answer.problem) == (0.5, "")


class TestNoNumber:
    @pytest.mark.parametrize(
        ("status", "body", "problem"),
        [
            (200, vector(), "the expression returns no series"),
            (200, vector("1", "2"), "the expression returns 2 series: use max(…) or sum(…)"),
            (200, vector("NaN"), "the expression returns nan"),
            (200, vector("+Inf"), "the expression returns inf"),
            (200, vector("many"), "the answer is not of the API /api/v1/query"),
            (200, of_type("matrix", []), "the expression returns a matrix: use one that returns one number"),
            (200, b"<html>sign in</html>", "the answer is not of the API /api/v1/query"),
            (200, b"[" * 60_000, "the answer is not of the API /api/v1/query"),
            (200, b"\xff\xfe", "the answer is not of the API /api/v1/query"),
            (200, b"x" * (BODY_BYTES_MAX + 1), "the answer is larger than 64 KiB"),
            (302, b"", "HTTP 302: a redirect, which is not followed"),
            (400, b'{"status": "error", "error": "parse error: unexpected end"}', 'HTTP 400: "parse error: unexpected end"'),
            (401, b"", "HTTP 401"),
            (500, b"x" * 100, "HTTP 500"),
            (503, b"not ready", "HTTP 503"),
        ],
    )  # fmt: skip
    def test_has_a_reason(self, status, body, problem):
        """The reason is in the job's status, so it names the cause in a few words."""
        answer = read_answer(status, body)

        assert (answer.value, answer.problem) == (None, problem)

    JSON = st.recursive(
        st.none()
        | st.booleans()
        | st.floats()
        | st.text(max_size=5)
        | st.sampled_from(["vector", "scalar", "success"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["status", "data", "resultType", "result", "value", "error"]), inner)
        ),
        max_leaves=12,
    )

    @given(
        status=st.sampled_from([200, 400, 503]),
        body=st.binary(max_size=50) | JSON.map(lambda value: json.dumps(value).encode()),
    )
    def test_any_answer_is_a_finite_number_or_has_a_reason(self, status, body):
        """A server of another kind, or one that lies, never ends the job."""
        answer = read_answer(status, body)

        assert (answer.value is None) == bool(answer.problem)
        assert answer.value is None or math.isfinite(answer.value)
        assert len(answer.problem) < 200
