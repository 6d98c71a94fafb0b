"""The pages of the site and their order, from the page index of the documentation (docs/README.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

INDEX = "docs/README.md"
DECISIONS = "docs/adr/README.md"
STRATEGIES = "docs/strategies.md"
NO_PAGE = "docs/package.md"
"""The page of the package index, which repeats the README."""

_GROUP = re.compile(r"^## (.+)$")
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \|")
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)|<img[^>]* src=\"([^\"]+)\"|(?:srcset|src)=\"([^\"]+)\"")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)

Entry = Mapping[str, object]
"""An entry of the menu, as mkdocs reads it: a title with a page, or with a list of entries."""


def menu(root: Path) -> list[Entry]:
    """Return the menu: the groups of the page index with their pages; decisions and strategies below their own page.

    Raises:
        ValueError: the page index has no groups.
    """
    groups: dict[str, list[Entry]] = {}
    group = ""
    for line in (root / INDEX).read_text().splitlines():
        if named := _GROUP.match(line):
            group = named[1]
            groups[group] = []
        elif group and (row := _ROW.match(line)):
            title, page = row[1], _inside(root, INDEX, row[2])
            below = _below(root, page)
            groups[group].append({title: [page, *below] if below else page})
    if not groups:
        raise ValueError(f"{INDEX} has no groups of pages: a heading `## Group`, and a table with a link in each row.")
    return [{"All pages": INDEX}, *({name: entries} for name, entries in groups.items())]


def _below(root: Path, page: str) -> list[Entry]:
    """Return the entries below a page: the decisions, or the pages of the strategies."""
    if page == DECISIONS:
        paths = sorted((root / DECISIONS).parent.glob("[0-9]*.md"))
    elif page == STRATEGIES:
        paths = [root / path for path in links(root, page) if path.endswith("README.md") and "/strategies/" in path]
    else:
        return []
    return [{_title(path): str(path.relative_to(root))} for path in paths]


def _title(path: Path) -> str:
    first = next((line for line in path.read_text().splitlines() if line.startswith("# ")), f"# {path.stem}")
    return first.removeprefix("# ")


def links(root: Path, page: str) -> list[str]:
    """Return the files of the project that a page links to or shows, relative to the root, in their order.

    Raises:
        ValueError: a link leads out of the project.
    """
    text = _FENCE.sub("", (root / page).read_text())
    targets = [next(filter(None, found.groups())) for found in _LINK.finditer(text)]
    local = [target for target in targets if not re.match(r"[a-z]+:", target)]
    return list(dict.fromkeys(_inside(root, page, target) for target in local))


def _inside(root: Path, page: str, target: str) -> str:
    path = ((root / page).parent / target).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ValueError(f"{page} links to {target}, which is outside the project.")
    return str(path.relative_to(root.resolve()))


def files(root: Path, entries: list[Entry]) -> list[str]:
    """Return all files that the site needs: the pages of the menu, all pages in `docs/`, and the files that they link to."""
    pages = [path for entry in entries for path in _pages(entry)]
    pages += [str(path.relative_to(root)) for path in sorted((root / "docs").rglob("*.md"))]
    pages = [page for page in pages if page != NO_PAGE]
    needed = dict.fromkeys(pages)
    for page in list(needed):
        if (root / page).exists():
            needed.update(dict.fromkeys(path for path in links(root, page) if (root / path).is_file()))
    return list(needed)


def _pages(entry: Entry | str) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    return [
        path
        for below in entry.values()
        for path in ([below] if isinstance(below, str) else [p for inner in below for p in _pages(inner)])  # type: ignore[attr-defined]
    ]
