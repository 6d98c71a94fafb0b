"""Architecture decision records (ADRs) are short, numbered without gaps, listed in an index, and cited by numbers that
exist."""

import re

import pytest
from support.repository import ROOT, name, tracked

FOLDER = ROOT / "docs" / "adr"
RECORDS = {path.name: path.read_text() for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md"}
WORDS_MAX = 250
TEXTS = {".md", ".py", ".toml", ".java", ".yaml", ".yml", ".sh", ".tpl"}
PLANTED = {"tests/architecture/pages/test_decisions.py"}

CITED = re.compile(r"\b(?:ADRs?|[Dd]ecision) (\d{2,4}(?:, \d{4})*)|\badr/(\d{4})")


def words(text):
    """Return the number of words of a record without its headings, tables, code and link targets."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = "\n".join(line for line in text.splitlines() if not line.startswith(("#", "|")))
    return len([word for word in re.sub(r"\]\([^)]*\)", "]", text).split() if re.search(r"\w", word)])


def misnumbered(names):
    """Return the names whose number is not the next one."""
    return [file for number, file in enumerate(sorted(names), 1) if not file.startswith(f"{number:04}-")]


def expected_rows(records):
    """Return the expected index rows of the records."""
    return [f"| [{file[:4]}]({file}) | {text.splitlines()[0].split(': ', 1)[1]} |" for file, text in records.items()]


def unknown(text, records):
    """Return the numbers that are cited but belong to no record."""
    numbers = {int(file[:4]) for file in records}
    cited = [number for match in CITED.finditer(text) for number in (match[1] or match[2]).split(", ")]
    return sorted({number for number in cited if int(number) not in numbers})


def lost(text, paths):
    """Return the modules in code font that do not exist."""
    return [
        module
        for module in re.findall(r"`([\w/]+\.py)`", text)
        if not any(f"/{path}".endswith(f"/{module}") for path in paths)
    ]


class TestDecisions:
    """A reader finds a decision by its number, and reads it in two minutes."""

    def test_numbers_have_no_gaps(self):
        """The first record has the number 0001."""
        assert RECORDS
        assert misnumbered(RECORDS) == []

    @pytest.mark.parametrize("file", RECORDS)
    def test_a_record_has_a_title_three_parts_and_few_words(self, file):
        """Tables of figures are not counted."""
        text = RECORDS[file]

        assert text.startswith(f"# {file[:4]}: ")
        assert re.findall(r"^## (.*)$", text, flags=re.MULTILINE) == ["Context", "Decision", "Consequences"]
        assert words(text) <= WORDS_MAX

    def test_the_index_lists_each_record_once_in_order(self):
        """Each row has the number, the link and the title of its record."""
        index = (FOLDER / "README.md").read_text()

        assert [row for row in index.splitlines() if row.startswith("| [")] == expected_rows(RECORDS)

    def test_cited_numbers_exist(self):
        """Code, tests, pages and planted bugs cite records."""
        files = [path for path in tracked() if path.suffix in TEXTS and name(path) not in PLANTED]

        missing = {name(path): unknown(path.read_text(errors="replace"), RECORDS) for path in files}

        assert {path: numbers for path, numbers in missing.items() if numbers} == {}

    def test_named_modules_exist(self):
        """A moved module must be updated in the records."""
        paths = [name(path) for path in tracked()]

        assert {file: missing for file, text in RECORDS.items() if (missing := lost(text, paths))} == {}


class TestPlantedFaults:
    """The checks fail where they must."""

    @pytest.mark.parametrize(
        ("names", "expected"),
        [
            (["0001-a.md", "0002-b.md"], []),
            (["0001-a.md", "0003-b.md"], ["0003-b.md"]),
            (["0002-a.md"], ["0002-a.md"]),
            (["0001-a.md", "0001-b.md"], ["0001-b.md"]),
        ],
    )
    def test_a_gap_and_a_duplicate_number_are_caught(self, names, expected):
        """A list that does not begin with 0001 is caught too."""
        assert misnumbered(names) == expected

    @pytest.mark.parametrize(
        ("text", "count"),
        [
            ("word " * (WORDS_MAX + 1), WORDS_MAX + 1),
            ("# 0001: A title\n\nOne *two* three.\n- four [five](0002-six.md)\n", 5),
            ("| a table | of figures |\n|---|---|\n\n```\ncode\n```\nOne – two\n", 2),
        ],
    )
    def test_words_outside_of_tables_are_counted(self, text, count):
        """Link targets, bullets and dashes do not count as words."""
        assert words(text) == count

    def test_a_missing_row_and_another_title_are_noticed(self):
        """The index is compared line by line."""
        assert expected_rows({"0001-a.md": "# 0001: Do it\n"}) == ["| [0001](0001-a.md) | Do it |"]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("see ADR 0001, and docs/adr/0001-a.md", []),
            ("(ADR 0001, 0009)", ["0009"]),
            ("[ADR 16](adr/0016-a-class-archive.md)", ["0016", "16"]),
            ("[decision 0008](x.md), adr/0007", ["0007", "0008"]),
        ],
    )
    def test_an_unknown_number_is_caught(self, text, expected):
        """The test covers each form of citation."""
        assert unknown(text, {"0001-a.md": ""}) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [("`b/c.py` and `c.py`", []), ("`x/c.py`", ["x/c.py"]), ("`bc.py`", ["bc.py"])],
    )
    def test_a_moved_module_is_caught(self, text, expected):
        """A path may begin at any folder."""
        assert lost(text, ["a/b/c.py", "a/abc.py"]) == expected
