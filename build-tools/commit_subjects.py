"""Check the subjects of commits: one area or several, an imperative, at most 72 characters.

    python build-tools/commit_subjects.py            the commits of this branch, from the first one that the rule covers
    python build-tools/commit_subjects.py FILE       the message in a file, as git's hook `commit-msg` passes it

A shallow clone checks the commits that it has. Without git, as in a source archive, nothing is checked.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
LAST_FREE = "2a6771ec3c767f917b6b78fb7cccc8b3a01c5f4f"
"""The last commit to which the rule does not apply."""

AREAS = (
    "api",
    "build",
    "chart",
    "ci",
    "cli",
    "console",
    "core",
    "crds",
    "docs",
    "driver",
    "examples",
    "kubectl",
    "operator",
    "python",
    "tests",
)
LONGEST = 72
AREA = f"(?:{'|'.join(AREAS)})"
SUBJECT = re.compile(rf"{AREA}(?:, {AREA})*: (?P<verb>[a-z]+)\b.*[^.]")
NO_IMPERATIVE = re.compile(r"\w+(?:ed|ing)|adds|fixes|makes|removes|renames|says|uses")
VERBS = {"bring", "embed", "feed", "need", "seed", "shed", "speed", "spring", "string"}
"""Imperatives with the ending of another verb form."""


def fault(subject: str) -> str | None:
    """Describe the fault of a subject; `None` if it follows the rule."""
    if subject.startswith(("Merge ", "Revert ", "fixup! ", "squash! ")):
        return None
    if len(subject) > LONGEST:
        return f"has {len(subject)} characters, at most {LONGEST} are allowed"
    match = SUBJECT.fullmatch(subject)
    if match is None:
        return f"must be `AREA: verb …` in lower case without a full stop; areas: {', '.join(AREAS)}"
    verb = match["verb"]
    if verb not in VERBS and NO_IMPERATIVE.fullmatch(verb):
        return f"must begin with an imperative such as `add` or `fix`, not with {verb!r}"
    return None


def subjects() -> list[str]:
    """Return the subjects of all commits that the rule covers, the newest first."""
    if _git("cat-file", "-e", f"{LAST_FREE}^{{commit}}") is not None:
        covered = f"{LAST_FREE}..HEAD"
    elif _git("rev-parse", "--is-shallow-repository") == "true\n":
        covered = "HEAD"
    else:
        return []  # another history
    return (_git("log", "--format=%s", covered) or "").splitlines()


def _git(*arguments: str) -> str | None:
    """Return the output of git; `None` if it fails or does not exist."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout if done.returncode == 0 else None


def main(arguments: list[str]) -> int:
    """Print each subject with a fault; return 1 if there is one."""
    checked = [Path(arguments[0]).read_text().split("\n", 1)[0]] if arguments else subjects()
    faults = [(subject, problem) for subject in checked if (problem := fault(subject))]
    for subject, problem in faults:
        print(f"commit subject {subject!r} {problem}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
