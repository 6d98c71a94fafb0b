"""Entry point of the `backfill` command; it names the extra to install when one is missing."""

from __future__ import annotations

import sys

EXTRA_OF = {"click": "cli", "rich": "cli"}
EXIT_USAGE = 2


def main() -> None:
    """Run the command line, or print the command that installs it."""
    try:
        from backfill_cli.__main__ import main as run
    except ModuleNotFoundError as error:
        if str(error.name).split(".")[0] not in EXTRA_OF:
            raise
        sys.stderr.write(f"error: PackageMissing: the command line needs {error.name}, which is not installed.\n")
        sys.stderr.write("hint: pip install 'backfill-operator[cli,spark]'\n")
        sys.exit(EXIT_USAGE)
    run()
