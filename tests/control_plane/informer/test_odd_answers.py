"""No response to any request ends the operator: load balancers and proxies may answer for an API server."""

import asyncio
import gzip
import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cluster.fake_api import Fault
from support.operators.rig import Rig

from backfill_operator.informer.pace import WatchPace
from backfill_operator.kube.rate import RETRY_AFTER_MAX_S, retry_after_s

HTML = b"<html><body><h1>503 Service Unavailable</h1>\nNo server is available.\n</body></html>\n"
DATE = b"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n"
PLURALS = ("backfills", "pods")
WATCHES = len(PLURALS) + 1
"""Open watches of an operator: both kinds, and the ConfigMap that pauses all jobs."""

REQUESTS = [
    ("watch", "backfills"), ("watch", "pods"), ("list", "backfills"), ("list", "pods"), ("get", "leases"), ("create", "leases"),
    ("update", "leases"), ("create", "events"), ("create", "configmaps"), ("create", "secrets"), ("create", "services"),
    ("create", "pods"), ("patch", "backfills"), ("get", "backfills"), ("get", "services"), ("delete", "pods"),
]  # fmt: skip
QUICK = {
    "watch_retry_max_seconds": 0.05, "leader_election": True, "lease_retry_seconds": 0.1, "lease_namespace": "shop",
}  # fmt: skip


def answer(status, body=b"", headers=b"Content-Type: text/html\r\n"):
    """Return a complete response."""
    return b"HTTP/1.1 %d Odd\r\n%sContent-Length: %d\r\n\r\n%s" % (status, headers, len(body), body)


def chunked(body, status=200):
    """Return the response to a watch."""
    return b"HTTP/1.1 %d OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (status, len(body), body)


ANSWERS = {
    "a page of a load balancer": answer(503, HTML),
    "a page of a gateway": answer(502, HTML),
    "too many requests, until a date": answer(429, b"slow down", DATE),
    "too many requests, for ever": answer(429, b"", b"Retry-After: inf\r\n"),
    "too many requests, for more than a float": answer(429, b"", b"Retry-After: %s\r\n" % (b"9" * 400)),
    "too many requests, for words": answer(429, b'{"kind":"Status","details":{"retryAfterSeconds":"soon"}}'),
    "no credentials": answer(401, HTML),
    "forbidden": answer(403, HTML),
    "not found": answer(404, HTML),
    "not allowed": answer(405, HTML),
    "gone": answer(410, HTML),
    "moved to itself": answer(302, HTML, b"Location: /\r\n"),
    "moved to nowhere": answer(307, HTML, b"Location: gopher://[nowhere\r\n"),
    "a page in the place of JSON": answer(200, HTML),
    "nothing": answer(200),
    "no content": answer(204),
    "a list": answer(200, b"[1, 2]"),
    "a number": answer(200, b"5"),
    "null": answer(200, b"null"),
    "an empty object": answer(200, b"{}"),
    "an object of wrong types": answer(200, b'{"metadata": 5, "items": 7, "versions": 1, "groups": 2, "resources": 3}'),
    "items of wrong types": answer(200, b'{"metadata": {"resourceVersion": []}, "items": [1, null, {}, {"metadata": []}]}'),
    "a version beyond all numbers": answer(200, b'{"metadata": {"resourceVersion": "%s"}, "items": []}' % (b"9" * 5000)),
    "a version in other digits": answer(200, b'{"metadata": {"resourceVersion": "\\u00b2"}, "items": []}'),
    "a stream of a page": chunked(HTML),
    "a stream of numbers": chunked(b"1\n[]\nnull\n"),
    "a stream of empty objects": chunked(b"{}\n"),
    "a stream of events without objects": chunked(b'{"type": "ADDED"}\n{"type": "ADDED", "object": null}\n'),
    "a stream of odd objects": chunked(
        b'{"type": "ADDED", "object": {"metadata": {"labels": 5, "annotations": [], "uid": {}, "resourceVersion": []}}}\n'
    ),
    "a stream that is an error without a code": chunked(b'{"type": "ERROR", "object": 7}\n'),
    "bytes that are no text": chunked(b"\xff\xfe\n"),
    "compressed rubbish": answer(200, b"rubbish", b"Content-Encoding: gzip\r\n"),
    "a bomb": answer(200, gzip.compress(b" " * (32 << 20)), b"Content-Encoding: gzip\r\n"),
    "a broken length": b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
    "a broken chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n",
    "no HTTP": b"220 mail.example ESMTP\r\n",
    "a header without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
    "a body that is cut": b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n{",
    "a date that is none": answer(200, b"{}", b"Date: Xxx, 99 Foo 99999 99:99:99 +9999999999\r\n"),
    "a cookie": answer(503, HTML, b"Set-Cookie: =;=\xff;;\r\n"),
}  # fmt: skip


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "5", "\u00b2", "orders", "Running"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["metadata", "items", "spec", "status", "labels", "name", "namespace", "uid", "resourceVersion", "continue",
                         "kind", "code", "details", "retryAfterSeconds", "message", "reason", "holderIdentity", "leaseTransitions"]),
        inner, max_size=5),
    max_leaves=12,
)  # fmt: skip
events = st.fixed_dictionaries(
    {"type": st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", 5]), "object": documents}
)
bodies = (
    documents.map(lambda document: json.dumps(document).encode())
    | st.lists(events, max_size=3).map(lambda lines: b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    | st.sampled_from([HTML, b"", b"{", b"\xff\n", b"\n" * 50])
)
headers = st.lists(
    st.sampled_from([
        DATE, b"Retry-After: 1e309\r\n", b"Retry-After: -5\r\n", b"Retry-After: 0.01\r\n", b"Date: yesterday\r\n",
        b"Date: Fri, 31 Dec 9999 23:59:59 -2359\r\n", b"Content-Encoding: br\r\n", b"Content-Type: \xff/\r\n", b"Connection: close\r\n",
        b"Location: //\r\n", b"Set-Cookie: a=b; Domain=..\r\n", b"Transfer-Encoding: gzip\r\n", b": none\r\n", b"Upgrade: h2c\r\n",
    ]), max_size=3, unique=True,
)  # fmt: skip


@st.composite
def answers(draw):
    """Draw the bytes of a response, truncated anywhere."""
    status = draw(
        st.sampled_from([200, 200, 200, 201, 204, 301, 400, 401, 403, 404, 409, 410, 429, 500, 504])
        | st.integers(100, 999)
    )
    raw = answer(status, draw(bodies), b"".join(draw(headers)))
    return raw[: draw(st.integers(1, len(raw)))] if draw(st.booleans()) else raw


async def survives(raws, *, at_start=False):
    """Give these responses to each kind of request, and check that the operator works afterwards."""
    async with Rig(start=not at_start, **QUICK) as rig:
        if not at_start:
            await rig.until(lambda: rig.api.open_watches == WATCHES and rig.operator.election.leading.is_set())
        rig.api.faults += [
            Fault("raw", raw=raw, verb=verb, plural=plural, dry_run=None, subresource=part)
            for raw in raws for verb, plural in REQUESTS for part in (None, "status")
        ]  # fmt: skip
        rig.api.break_watches()
        rig.create("before")
        if at_start:
            rig.start()
        watches = [fault for fault in rig.api.faults if (fault.verb, fault.subresource) == ("watch", None)]
        await rig.until(lambda: not any(fault.times for fault in watches) or not rig.running.alive)
        await rig.until(lambda: rig.api.open_watches == WATCHES or not rig.running.alive)
        rig.api.faults.clear()
        rig.create("after")
        await rig.until(lambda: rig.holds("Running", "after") or not rig.running.alive)
        assert rig.running.error is None
        assert rig.running.alive


class TestAnswers:
    @pytest.mark.parametrize("raw", ANSWERS.values(), ids=ANSWERS)
    async def test_response_of_another_server_ends_no_operator(self, raw):
        """Each request gets it once, then the true response: the operator continues (fault C3)."""
        await survives([raw])

    @settings(max_examples=12, deadline=None)
    @given(st.lists(answers(), min_size=2, max_size=6), st.booleans())
    def test_random_response_ends_no_operator(self, raws, at_start):
        """Status, headers and body are random and truncated anywhere; some responses arrive during the start."""
        asyncio.run(survives(raws, at_start=at_start))


class TestWatchesThatBringNothing:
    @pytest.mark.parametrize(
        "raw",
        [
            chunked(b""), chunked(b'{"type": "ADDED", "obj'), answer(429, b"", b"Retry-After: 0.5\r\n"),
            answer(429, b"", b"Retry-After: 0\r\n"), answer(410, b""), chunked(b'{"type": "ERROR", "object": {"code": 410}}\n'),
        ],
        ids=["empty", "cut", "half a second", "no second", "gone", "gone in the stream"],
    )  # fmt: skip
    async def test_watches_without_events_are_opened_less_often(self, raw):
        """There were 22,300 requests in 6 s for one namespace; lists find the changes meanwhile (fault C4)."""
        await self.is_paced(Fault("raw", raw=raw, verb="watch", times=float("inf")))

    async def test_watches_without_an_answer_are_opened_less_often(self):
        """kopf cancels them after a while, and retries at once."""
        await self.is_paced(Fault("slow", verb="watch", seconds=60, times=float("inf")), watch_silence_seconds=0.2)

    async def is_paced(self, fault, **settings):
        """Watch during a fault: changes from lists arrive, and the delay of each watch grows."""
        loop = asyncio.get_running_loop()
        async with Rig(start=False, **settings) as rig:
            rig.api.faults.append(fault)
            began = loop.time()
            rig.start()
            rig.create()
            await rig.until_holds("Running", within_s=20)
            value = rig.operator.metrics.registry.get_sample_value

            def failures():
                return [
                    value("backfill_operator_watch_failures_total", {"resource": plural}) or 0 for plural in PLURALS
                ]

            await rig.until(lambda: min(failures()) >= 4, within_s=20)
            watches = [seen for seen in rig.api.requests if seen.verb == "watch"]
            seconds = loop.time() - began

        # After 0.25, 0.5 and 1 second, each up to a quarter shorter: the number of requests in this time is limited.
        most = next(number for number in itertools.count(1) if 0.75 * 0.25 * (2**number - 1) > seconds)
        assert seconds >= 0.75 * (0.25 + 0.5 + 1)
        assert len(watches) <= WATCHES * most

    async def test_working_watch_has_no_delay(self):
        """The first event resets the failures."""
        pace = WatchPace(30.0)
        for _ in range(9):
            pace.failed("/pods", "no")
        pace.ended("/pods", lines=1, seconds=0.0)

        async with asyncio.timeout(1):
            await pace.wait("/pods")

    async def test_watches_use_the_rate_limit(self):
        """If the watches of a thousand namespaces end at the same time, they cause two thousand requests."""
        async with Rig(queries_per_second=2.0, query_burst=1, start=False) as rig:
            rig.start()
            await rig.until(lambda: rig.api.open_watches == WATCHES, within_s=20)
            began = asyncio.get_running_loop().time()
            before = len(rig.api.requests)
            rig.api.break_watches()
            await rig.until(lambda: rig.api.open_watches == WATCHES, within_s=20)
            seconds = asyncio.get_running_loop().time() - began

        assert len(rig.api.requests) - before <= 2.0 * seconds + 2


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            (None, None), ("7", 7.0), ("0.5", 0.5), (" 3 ", 3.0), ("Wed, 21 Oct 2026 07:28:10 GMT", 10.0),
            ("Wed, 21 Oct 2026 07:00:00 GMT", 0.0), ("Fri, 31 Dec 9999 23:59:59 GMT", RETRY_AFTER_MAX_S), ("999999", RETRY_AFTER_MAX_S),
            ("9" * 400, None), ("inf", None), ("nan", None), ("-1", None), ("\u0661", None), ("soon", None),
        ],
    )  # fmt: skip
    def test_retry_after_accepts_numbers_and_dates(self, header, seconds):
        """A date is relative to the date of its own response, because two clocks may differ."""
        assert retry_after_s(header, "Wed, 21 Oct 2026 07:28:00 GMT") == seconds

    @given(st.text(max_size=60), st.text(max_size=60))
    def test_no_retry_after_header_is_an_error(self, header, date):
        """Any content gives a number of seconds or none."""
        seconds = retry_after_s(header, date)

        assert seconds is None or 0.0 <= seconds <= RETRY_AFTER_MAX_S
