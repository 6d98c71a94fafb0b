"""Every YAML of every page is a Backfill, or a part of one: a reader copies it and it is valid (fault U6)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from backfill_api.load import SpecError, load_backfill

ROOT = Path(__file__).parents[3]
PAGES = sorted([ROOT / "README.md", ROOT / "SECURITY.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
BASE: dict[str, Any] = {
    "apiVersion": "backfill.dev/v1alpha1",
    "kind": "Backfill",
    "metadata": {"name": "page"},
    "spec": {
        "source": {"type": "Delta", "delta": {"path": "/lake/orders", "key": ["id"]}},
        "target": {"type": "Delta", "delta": {"path": "/lake/copy"}},
    },
}
"""The rest of a part."""

CHART_TOPICS = {"limits", "operator", "watch", "tenant", "networkPolicy", "images"}

TABLE_OPTIONS = ("schemaChange: Follow",)
"""Options of a source that one strategy alone knows."""


def is_of_the_chart(text: str) -> bool:
    """Return whether a YAML is a part of the chart's values; its topics are no fields of a spec."""
    topic = re.match(r"(\w+):", text)
    return topic is not None and topic[1] in CHART_TOPICS


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield each YAML of a page with its line: fenced as YAML, or a whole Backfill in any other fence."""
    for found in FENCED.finditer(text):
        if is_of_the_chart(found[3]):
            continue
        if found[2] in ("yaml", "yml") or re.search(r"^ *kind: Backfill$", found[3], re.MULTILINE):
            yield text[: found.start()].count("\n") + 1, found[3]


def merged(base: Any, part: Any) -> Any:
    """Return a document with the fields of a part in it."""
    if not isinstance(base, Mapping) or not isinstance(part, Mapping):
        return part
    return {**base, **{name: merged(base.get(name), value) for name, value in part.items()}}


def backfill_of(text: str) -> dict[str, Any]:
    """Return the Backfill that a YAML is, or is a part of."""
    part = yaml.safe_load(text)
    if "kind" in part:
        return part
    found = merged(BASE, part if "spec" in part else {"spec": part})
    if any(option in text for option in TABLE_OPTIONS):
        found["spec"].setdefault("strategy", {"type": "Replica"})
    return found


CASES = [(page.relative_to(ROOT).as_posix(), line, text) for page in PAGES for line, text in blocks(page.read_text())]


class TestTheYamlOfAPage:
    """The page for moving a table began with a path that no driver opens."""

    @pytest.mark.parametrize(("page", "line", "text"), CASES, ids=[f"{page}:{line}" for page, line, _ in CASES])
    def test_is_valid(self, page: str, line: int, text: str) -> None:
        """A reader copies it as it is."""
        load_backfill(backfill_of(text))

    def test_is_found(self) -> None:
        """Pages have whole files and parts; a search that finds none proves nothing."""
        assert len(CASES) >= 8
        assert {"docs/cloning.md", "docs/strategies.md", "README.md"} <= {page for page, _, _ in CASES}

    def test_with_a_mistake_is_refused(self) -> None:
        """A part that is not valid fails the test above."""
        with pytest.raises(SpecError, match=r"spec\.strategy\.type"):
            load_backfill(backfill_of("strategy: {type: Replika}"))
