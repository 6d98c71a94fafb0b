"""Every YAML block of every page is a Backfill or a part of one: a reader can copy it, and it is valid (fault U6)."""

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

CHART_TOPICS = {"limits", "operator", "watch", "tenant", "networkPolicy", "images", "monitoring", "jobs", "podUser"}

TABLE_OPTIONS = ("schemaChange: Follow",)
"""Options of a source that only one strategy supports."""


def is_of_the_chart(text: str) -> bool:
    """Return whether a YAML block is a part of the chart's values; its topics are no fields of a spec."""
    topic = re.match(r"(\w+):", text)
    return topic is not None and topic[1] in CHART_TOPICS


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield each YAML block of a page with its line: fenced as YAML, or a whole Backfill in any other fence."""
    for match in FENCED.finditer(text):
        if is_of_the_chart(match[3]):
            continue
        if match[2] in ("yaml", "yml") or re.search(r"^ *kind: Backfill$", match[3], re.MULTILINE):
            yield text[: match.start()].count("\n") + 1, match[3]


def merged(base: Any, part: Any) -> Any:
    """Return the base document, updated with the fields of a part."""
    if not isinstance(base, Mapping) or not isinstance(part, Mapping):
        return part
    return {**base, **{name: merged(base.get(name), value) for name, value in part.items()}}


def backfill_of(text: str) -> dict[str, Any]:
    """Return the Backfill in a YAML block, or the one that a part is completed to."""
    part = yaml.safe_load(text)
    if "kind" in part:
        return part
    document = merged(BASE, part if "spec" in part else {"spec": part})
    if any(option in text for option in TABLE_OPTIONS):
        document["spec"].setdefault("strategy", {"type": "Replica"})
    return document


CASES = [(page.relative_to(ROOT).as_posix(), line, text) for page in PAGES for line, text in blocks(page.read_text())]


class TestTheYamlOfAPage:
    """The page about moving a table once began with a path that no driver opens."""

    @pytest.mark.parametrize(("page", "line", "text"), CASES, ids=[f"{page}:{line}" for page, line, _ in CASES])
    def test_each_yaml_block_is_valid(self, page: str, line: int, text: str) -> None:
        """A reader copies it unchanged."""
        load_backfill(backfill_of(text))

    def test_the_pages_have_yaml_blocks(self) -> None:
        """Pages have whole files and parts; a search without results proves nothing."""
        assert len(CASES) >= 8
        assert {"docs/cloning.md", "docs/strategies.md", "README.md"} <= {page for page, _, _ in CASES}

    def test_a_yaml_block_with_a_mistake_is_refused(self) -> None:
        """An invalid part fails the test above."""
        with pytest.raises(SpecError, match=r"spec\.strategy\.type"):
            load_backfill(backfill_of("strategy: {type: Replika}"))
