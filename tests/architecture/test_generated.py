"""What a user can meet is explained. That generated files are fresh is for `make check` to say."""

import re

import pytest
from support.repository import ROOT, name, tracked

from backfill import control as client
from backfill_core import errors
from backfill_spark import settings

PAGE = (ROOT / "docs" / "errors.md").read_text()


def of(*modules):
    """Return the errors of modules that have a reason of their own."""
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    found = {kind for kind in kinds if issubclass(kind, errors.BackfillError) and kind is not errors.BackfillError}
    return sorted((kind for kind in found if "reason" in vars(kind)), key=lambda kind: kind.__name__)


RUN = of(errors)
CLASSES = of(errors, client, settings)
COMMAND = [kind for kind in CLASSES if kind not in RUN]

LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGES = [path for path in tracked() if path.suffix == ".md"]


def prose(path):
    """Return a page without its code."""
    return re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)


def anchors(path):
    """Return the names by which links reach a page's headings."""
    headings = re.findall(r"^#+ (.*)$", prose(path), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


class TestPages:
    """A page that no link reaches is read by no user."""

    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_links_lead_somewhere(self, page):
        """Pages and headings are renamed, and nothing else would notice."""
        for link in LINK.findall(prose(page)):
            if not re.match("[a-z]+:", link):
                path, _, anchor = link.partition("#")
                there = (page.parent / path).resolve() if path else page
                assert there.exists(), link
                assert not anchor or anchor in anchors(there), link

    def test_after_the_backfill_is_reached_and_says_how_to_compact_and_to_release(self):
        """Many small files are left, and a table that some writers refuse."""
        assert "](after-the-backfill.md)" in prose(ROOT / "docs" / "README.md")
        page = (ROOT / "docs" / "after-the-backfill.md").read_text()
        assert [words for words in ("OPTIMIZE", "backfill release", "delta-rs") if words not in page] == []


class TestErrors:
    """The reason is what a user searches for."""

    @pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
    def test_a_reason_is_explained(self, kind):
        """With its exit code and a hint."""
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind.reason}` "))
        _, _, code, retryable, meaning, hint, _ = row.split("|")

        assert int(code) == kind.exit_code
        assert retryable.strip() == ("yes" if kind.retryable else "no")
        assert len(meaning.split()) > 3
        assert len(hint.split()) > 3

    def test_a_reason_names_one_error(self):
        """Two errors under one word could not be told apart."""
        reasons = [kind.reason for kind in CLASSES]

        assert sorted(set(reasons)) == sorted(reasons)

    @pytest.mark.parametrize("kind", COMMAND, ids=lambda kind: kind.__name__)
    def test_a_command_ends_with_a_code_below_those_of_runs(self, kind):
        """A script must be able to tell `no job is running` from `the run failed`."""
        assert 2 <= kind.exit_code < 10
        assert f"\n| {kind.exit_code} | " in PAGE

    @pytest.mark.parametrize("kind", RUN, ids=lambda kind: kind.__name__)
    def test_an_exit_code_says_whether_to_retry(self, kind):
        """The operator classifies a dead driver by this number alone."""
        assert kind.retryable == (60 <= kind.exit_code < 80)
        assert kind.retryable or 20 <= kind.exit_code < 60
