"""The planted bugs of tests/mutants: the bug, the rule that it breaks, and the test that catches it."""

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "mutants"


@dataclass(frozen=True)
class Mutant:
    """One planted bug."""

    name: str
    area: str
    bug: str
    """The wrong behaviour, in a sentence."""

    about: str
    """The rule that it breaks, or the pitfall."""

    file: str
    old: str
    new: str
    test: str
    """Node id of the test that must fail; a parametrized test fails for at least one of its parameters."""

    only: str = ""
    """Expression for pytest's `-k` that selects parameters."""

    cheap: bool = True

    def misfits(self, root: Path) -> str | None:
        """Return why the bug can no longer be planted or tested; `None` if it can."""
        path, (test_file, *inside) = root / self.file, self.test.split("::")
        count = path.read_text().count(self.old) if path.exists() else 0
        if count != 1:
            return f"{self.name}: the line to replace occurs {count} times in {self.file}"
        if self.old == self.new:
            return f"{self.name}: it changes nothing"
        if not (root / test_file).exists():
            return f"{self.name}: no file {test_file} to test it"
        text = (root / test_file).read_text()
        lost = [name for name in inside if f"class {name}" not in text and f"def {name}(" not in text]
        return f"{self.name}: no {'::'.join(lost)} in {test_file}" if lost else None

    def plant(self, root: Path) -> None:
        """Write the bug into a copy."""
        path = root / self.file
        path.write_text(path.read_text().replace(self.old, self.new))

    def heal(self, root: Path) -> None:
        """Restore the original file in a copy."""
        shutil.copyfile(ROOT / self.file, root / self.file)


def load() -> list[Mutant]:
    """Return all planted bugs, by file."""
    return [
        Mutant(name, path.stem, **fields)
        for path in sorted(FOLDER.glob("*.toml"))
        for name, fields in tomllib.loads(path.read_text()).items()
    ]


def listed() -> str:
    """Return a paragraph for each planted bug: the bug, the rule, the changed file, and the test that fails."""
    return "\n".join(
        f"{bug.name}{'' if bug.cheap else ' (not in CI)'}: {bug.bug}\n  {bug.about}; {bug.file}; {bug.test}"
        for bug in load()
    )
