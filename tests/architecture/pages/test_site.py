"""The site has every page, and a page that leads nowhere fails its build."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.repository import ROOT

sys.path.insert(0, str(ROOT / "build-tools" / "site"))

from build import ICON, SCRIPT, SiteError, build
from pages import menu

INDEX = """# Documentation

## Use

| page | read it to |
|---|---|
| [Copy](copy.md) | copy |
| [Decisions](adr/README.md) | understand |
"""

PAGES = {
    "docs/README.md": INDEX,
    "docs/copy.md": "# Copy\n\nSee [the end](copy.md#the-end), [why](adr/0001-why.md) and [a job](../examples/job.yaml).\n\n## The end\n",
    "docs/adr/README.md": "# Decisions\n\n[Why](0001-why.md)\n",
    "docs/adr/0001-why.md": "# 1. Why\n\n```mermaid\nflowchart LR\n```\n",
    "examples/job.yaml": "kind: Backfill\n",
}


@pytest.fixture
def project(tmp_path):
    """A small project with a site; its script for diagrams is empty."""
    for name, text in {**PAGES, ICON: "<svg xmlns='http://www.w3.org/2000/svg'/>", Path(SCRIPT).name: ""}.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def built(project):
    """Build the site of a project, and return its folder."""
    out = project.parent / "site"
    build(project, out, project / Path(SCRIPT).name)
    return out


class Requests(HTMLParser):
    """The addresses that a browser loads for a page without a click."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag in {"script", "img", "iframe"} and values.get("src"):
            self.addresses.append(values["src"])
        if tag == "link" and values.get("rel") in {"stylesheet", "icon", "preconnect", "preload"}:
            self.addresses.append(values["href"])


class TestTheSite:
    """The pages keep their layout, so a link works as a plain file and on the site."""

    def test_all_pages_and_linked_files_are_on_the_site_and_load_nothing_from_elsewhere(self, project):
        """A closed network has no other hosts, and no other host learns who reads."""
        site = built(project)

        assert {str(path.relative_to(site)) for path in site.rglob("*.html")} >= {
            "docs/index.html", "docs/copy.html", "docs/adr/index.html", "docs/adr/0001-why.html",
        }  # fmt: skip
        assert (site / "examples/job.yaml").read_text() == PAGES["examples/job.yaml"]
        assert "the end" in (site / "search" / "search_index.json").read_text().lower()
        requests = Requests()
        for page in site.rglob("*.html"):
            requests.feed(page.read_text())
        assert requests.addresses
        assert [address for address in requests.addresses if re.match(r"([a-z]+:)?//", address)] == []

    @pytest.mark.parametrize(
        ("page", "planted", "named"),
        [
            ("docs/copy.md", "[x](gone.md)", "gone.md"),
            ("docs/copy.md", "[x](copy.md#nowhere)", "nowhere"),
            ("docs/copy.md", "![x](images/gone.png)", "images/gone.png"),
            ("docs/copy.md", "[x](../../outside.md)", "outside the project"),
            ("docs/lost.md", "# A page that no menu has", "docs/lost.md"),
        ],
        ids=["a missing page", "an unknown anchor", "a missing picture", "a file outside", "a page without an entry"],
    )
    def test_a_page_that_leads_nowhere_or_is_not_in_the_menu_fails_the_build_by_name(
        self, project, page, planted, named
    ):
        """A reader would meet it, and a reviewer would not."""
        with (project / page).open("a") as file:
            file.write(f"\n{planted}\n")

        with pytest.raises(SiteError, match=re.escape(named)):
            built(project)

    def test_the_menu_of_this_project_names_existing_pages_only(self):
        """The whole site is built by `make site`, without a browser or a network in the tests."""

        def pages(entry):
            if isinstance(entry, str):
                return [entry]
            return [path for value in entry.values() for path in ([value] if isinstance(value, str) else
                    [inner for item in value for inner in pages(item)])]  # fmt: skip

        named = [path for entry in menu(ROOT) for path in pages(entry)]

        assert "README.md" in named
        assert "docs/adr/0001-delta-commit-as-checkpoint.md" in named
        assert "spark_app/backfill_core/strategies/replica/README.md" in named
        assert [path for path in named if not (ROOT / path).exists()] == []
