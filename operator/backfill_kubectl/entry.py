"""Entry points of `kubectl backfill`; they name the extra to install when a package is missing."""

from __future__ import annotations

import sys

EXTRA_OF = {"click": "kubectl", "rich": "kubectl", "kubernetes": "kubectl", "urllib3": "kubectl"}
EXIT_USAGE = 2


def main() -> None:
    """Run the command line, or print the command that installs it."""
    try:
        from backfill_kubectl.__main__ import main as run
    except ModuleNotFoundError as error:
        _name_extra(error)
    run()


def complete() -> None:
    """Print completions of a command line; kubectl runs `kubectl_complete-backfill` for them."""
    try:
        from backfill_kubectl.__main__ import complete as run
    except ModuleNotFoundError as error:
        _name_extra(error)
    run(sys.argv[1:])


def _name_extra(error: ModuleNotFoundError) -> None:
    """Print the command that installs a missing package; any other error is raised again."""
    if str(error.name).split(".")[0] not in EXTRA_OF:
        raise error
    sys.stderr.write(f"error: PackageMissing: kubectl backfill needs {error.name}, which is not installed.\n")
    sys.stderr.write("hint: pip install 'backfill-operator[kubectl]'\n")
    sys.exit(EXIT_USAGE)
