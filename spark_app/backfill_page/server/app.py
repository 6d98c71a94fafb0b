"""Routes of the page."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from datetime import datetime
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from backfill_page.seen import Answer, JobSeen, Listing, SourceError
from backfill_page.server.access import OPEN_PATH, Access, Guard
from backfill_page.server.actions import parse_action, parse_all_jobs_action
from backfill_page.server.feeds import Board, Gone, Problem
from backfill_page.server.pages import FOLDER, THEMES, Chrome, Pages, changed

FORM_BYTES_MAX: Final = 4096
KEY_CHARACTERS_MAX: Final = 512
STREAM: Final = "text/event-stream"


def page_app(board: Board, access: Access) -> ASGIApp:
    """Return the application that serves a source of jobs."""
    routes = _Routes(board, access)
    app = Starlette(
        routes=[
            Route(OPEN_PATH, routes.open),
            Route("/", routes.jobs),
            Route("/job", routes.job),
            Route("/events", routes.jobs_events),
            Route("/events/job", routes.job_events),
            Route("/act", routes.act, methods=["POST"]),
            Route("/act/all", routes.act_on_all, methods=["POST"]),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
        ]
    )
    return Guard(app, access)


class _Routes:
    def __init__(self, board: Board, access: Access) -> None:
        self._board = board
        self._source = board.source
        self._access = access
        self._pages = Pages()

    async def open(self, request: Request) -> Response:
        """Exchange the token of the link for a session."""
        return self._access.open(request.query_params.get("token", ""), request.headers)

    async def jobs(self, request: Request) -> Response:
        """Return the page of all jobs."""
        chrome = self._chrome(request)
        try:
            listing = await run_in_threadpool(self._source.jobs)
        except SourceError as error:
            return HTMLResponse(self._pages.failure(str(error), chrome), 502)
        return HTMLResponse(self._pages.jobs(listing, chrome, _namespace(request)))

    async def job(self, request: Request) -> Response:
        """Return the page of one job."""
        key, chrome = _key(request), self._chrome(request)
        try:
            seen = await run_in_threadpool(self._source.job, key)
        except SourceError as error:
            return HTMLResponse(self._pages.failure(str(error), chrome), 502)
        if seen is None:
            return HTMLResponse(self._pages.failure(f"There is no job {key!r}.", chrome), 404)
        return HTMLResponse(self._pages.job(seen, chrome))

    async def jobs_events(self, request: Request) -> Response:
        """Return the stream of the page of all jobs."""
        return StreamingResponse(self._jobs_messages(_namespace(request)), media_type=STREAM)

    async def _jobs_messages(self, namespace: str) -> AsyncIterator[str]:
        shown: dict[str, str] = {}
        async with aclosing(self._board.jobs.follow()) as news:
            async for listing in news:
                if not isinstance(listing, Listing):
                    yield _message(problem=listing.text if isinstance(listing, Problem) else "the list has ended")
                    continue
                regions = self._pages.jobs_regions(listing, namespace)
                yield _message(regions=changed(shown, regions), age_s=_age_s(listing.at))
                shown = regions

    async def job_events(self, request: Request) -> Response:
        """Return the stream of the page of one job."""
        key, ended = _key(request), request.query_params.get("ended") == "1"
        if not self._board.may_watch(key):
            return PlainTextResponse("Too many jobs are watched: close other pages.\n", 503)
        return StreamingResponse(self._job_messages(key, ended=ended), media_type=STREAM)

    async def _job_messages(self, key: str, *, ended: bool) -> AsyncIterator[str]:
        shown: dict[str, str] = {}
        sampled: datetime | None = None
        async with aclosing(self._board.job(key).follow()) as news:
            async for seen in news:
                match seen:
                    case Problem():
                        yield _message(problem=seen.text)
                    case Gone():
                        yield _message(problem="the job is gone")
                    case JobSeen() if (seen.ended is not None) != ended:
                        yield _message(reload=True)
                    case JobSeen():
                        regions, ring = self._pages.job_regions(seen), self._board.ring(key)
                        chart = {"chart": ring.columns()} if ring.last != sampled else {}
                        yield _message(regions=changed(shown, regions), age_s=_age_s(seen.at), **chart)
                        shown, sampled = regions, ring.last

    async def act(self, request: Request) -> Response:
        """Send an action, and return its answer."""

        def acted(form: dict[str, str]) -> Callable[[], Answer]:
            return partial(self._source.act, form.get("key", ""), parse_action(form))

        return await self._acted(request, acted)

    async def act_on_all(self, request: Request) -> Response:
        """Send an action to all jobs, and return its answer."""
        return await self._acted(request, lambda form: partial(self._source.act_on_all, parse_all_jobs_action(form)))

    async def _acted(self, request: Request, parsed: Callable[[dict[str, str]], Callable[[], Answer]]) -> Response:
        length = request.headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > FORM_BYTES_MAX:
            return PlainTextResponse(f"A form has a Content-Length of at most {FORM_BYTES_MAX} bytes.\n", 413)
        form = dict(parse_qsl((await request.body()).decode(errors="replace"), keep_blank_values=True))
        try:
            work = parsed(form)
        except ValueError as error:
            return HTMLResponse(self._pages.answer(Answer(False, f"{error}.")))
        return HTMLResponse(self._pages.answer(await run_in_threadpool(work)))

    def _chrome(self, request: Request) -> Chrome:
        theme = request.cookies.get("theme", "")
        return Chrome(self._source.place, self._access.csrf, theme if theme in THEMES else "")


def _key(request: Request) -> str:
    return request.query_params.get("key", "")[:KEY_CHARACTERS_MAX]


def _namespace(request: Request) -> str:
    return request.query_params.get("namespace", "")[:KEY_CHARACTERS_MAX]


def _age_s(at: datetime) -> float:
    return round(max(0.0, time.time() - at.timestamp()), 1)


def _message(**fields: Any) -> str:
    return f"data: {json.dumps(fields, separators=(',', ':'))}\n\n"
