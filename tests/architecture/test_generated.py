"""Everything that a user can meet is explained. `make check` verifies that generated files are up to date."""

import re

import pytest
from support.repository import ROOT, name, tracked

from backfill import control as client
from backfill_core import errors
from backfill_spark import settings

PAGE = (ROOT / "docs" / "errors.md").read_text()


def of(*modules):
    """Return the errors of modules that define their own reason."""
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    kinds_with_base = {
        kind for kind in kinds if issubclass(kind, errors.BackfillError) and kind is not errors.BackfillError
    }
    return sorted((kind for kind in kinds_with_base if "reason" in vars(kind)), key=lambda kind: kind.__name__)


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
    """No user reads a page that no link reaches."""

    @pytest.mark.parametrize("page", PAGES, ids=name)
    def test_links_lead_to_existing_pages(self, page):
        """Pages and headings are renamed, and no other check would notice."""
        for link in LINK.findall(prose(page)):
            if not re.match("[a-z]+:", link):
                path, _, anchor = link.partition("#")
                target = (page.parent / path).resolve() if path else page
                assert target.exists(), link
                assert not anchor or anchor in anchors(target), link

    def test_the_page_about_the_end_is_linked_and_explains_compaction_and_release(self):
        """A job leaves many small files, and a table that some writers reject."""
        assert "](after-the-backfill.md)" in prose(ROOT / "docs" / "README.md")
        page = (ROOT / "docs" / "after-the-backfill.md").read_text()
        assert [term for term in ("OPTIMIZE", "backfill release", "delta-rs") if term not in page] == []


class TestErrors:
    """Users search the page of errors for the reason."""

    @pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
    def test_a_reason_is_explained(self, kind):
        """The row contains its exit code and a hint."""
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind.reason}` "))
        _, _, code, retryable, meaning, hint, _ = row.split("|")

        assert int(code) == kind.exit_code
        assert retryable.strip() == ("yes" if kind.retryable else "no")
        assert len(meaning.split()) > 3
        assert len(hint.split()) > 3

    def test_a_reason_names_one_error(self):
        """Users could not distinguish two errors with one reason."""
        reasons = [kind.reason for kind in CLASSES]

        assert sorted(set(reasons)) == sorted(reasons)

    @pytest.mark.parametrize("kind", COMMAND, ids=lambda kind: kind.__name__)
    def test_a_command_ends_with_a_code_below_those_of_runs(self, kind):
        """A script must be able to distinguish `no job is running` from `the run failed`."""
        assert 2 <= kind.exit_code < 10
        assert f"\n| {kind.exit_code} | " in PAGE

    @pytest.mark.parametrize("kind", RUN, ids=lambda kind: kind.__name__)
    def test_an_exit_code_shows_whether_to_retry(self, kind):
        """The operator classifies a dead driver only by this number."""
        assert kind.retryable == (60 <= kind.exit_code < 80)
        assert kind.retryable or 20 <= kind.exit_code < 60
