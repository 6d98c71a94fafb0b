"""HTML of pages and of their regions. Each string is escaped by the templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from backfill_page.seen import Answer, JobSeen, Listing
from backfill_page.views.ended import ended_view
from backfill_page.views.job import buttons_view, job_view
from backfill_page.views.listing import jobs_view, namespaces_of

FOLDER: Final = Path(__file__).parent.parent
JOBS_REGIONS: Final = ("counts", "switch", "rows")
RUNNING_REGIONS: Final = ("head", "buttons", "bars", "parts", "receipt", "facts", "log")
ENDED_REGIONS: Final = ("head", "ending", "parts", "receipt", "facts", "log")
THEMES: Final = ("light", "dark")
UNSHOWABLE: Final = "The job reports a value that cannot be shown, such as a time that is no time."


@dataclass(frozen=True, slots=True)
class Chrome:
    """Parts of every page: the name of its source, the value for POST requests, and the theme."""

    place: str
    csrf: str
    theme: str = ""
    """`light` or `dark`; empty for that of the browser."""


class Pages:
    """Renders pages and regions."""

    def __init__(self) -> None:
        """Load the templates."""
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
            lstrip_blocks=True, auto_reload=False,
        )  # fmt: skip

    def jobs(self, listing: Listing, chrome: Chrome, namespace: str) -> str:
        """Return the page of all jobs, or of those of a namespace."""
        regions = self.jobs_regions(listing, namespace)
        menu = namespaces_of(listing, namespace)
        switch = listing.switch is not None
        return self._page(
            "jobs.html", chrome, regions=regions, namespace=namespace, namespaces=menu, switch=switch, age_at=listing.at
        )

    def job(self, seen: JobSeen, chrome: Chrome) -> str:
        """Return the page of one job, or of a run that has ended."""
        regions = self.job_regions(seen)
        return self._page(
            "job.html", chrome, key=seen.key, regions=regions, ended=seen.ended is not None, age_at=seen.at
        )

    def failure(self, text: str, chrome: Chrome) -> str:
        """Return the page for a source that cannot be read, or for a job that does not exist."""
        return self._page("failure.html", chrome, text=text)

    def jobs_regions(self, listing: Listing, namespace: str) -> dict[str, str]:
        """Return the regions of the page of all jobs, or of those of a namespace."""
        view = jobs_view(listing, namespace)
        return {name: self._render(f"jobs/{name}.html", view=view) for name in JOBS_REGIONS}

    def job_regions(self, seen: JobSeen) -> dict[str, str]:
        """Return the regions of the page of one job."""
        try:
            values: dict[str, Any] = {"view": job_view(seen)}
            values["ended"] = None if seen.ended is None else ended_view(seen, seen.ended)
        except (ValueError, OverflowError, TypeError):
            # Times and counts of another program: the models check their size, not their sense.
            return self._unshowable(seen)
        regions = RUNNING_REGIONS if seen.ended is None else ENDED_REGIONS
        return {name: self._render(f"job/{name}.html", **values) for name in regions}

    def _unshowable(self, seen: JobSeen) -> dict[str, str]:
        regions = dict.fromkeys(RUNNING_REGIONS if seen.ended is None else ENDED_REGIONS, "")
        regions["head"] = self._render("job/unshowable.html", key=seen.key, text=UNSHOWABLE)
        if "buttons" in regions:
            buttons = buttons_view(seen)
            regions["buttons"] = self._render("job/buttons.html", view={"key": seen.key, "buttons": buttons})
        return regions

    def answer(self, answer: Answer) -> str:
        """Return the answer to an action."""
        return self._render("answer.html", answer=answer)

    def _page(self, template: str, chrome: Chrome, **values: Any) -> str:
        return self._render(template, chrome=chrome, **values)

    def _render(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(values)


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return the regions whose HTML differs."""
    return {name: html for name, html in after.items() if before.get(name) != html}
