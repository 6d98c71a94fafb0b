"""`lint`: a check of files before they reach a cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from backfill_api.amounts import counted
from backfill_api.plain_text import printable
from backfill_core.errors import InvalidSpecError
from backfill_kubectl.commands.options import output_option, print_value
from backfill_kubectl.decisions.manifest_findings import LintedFile, lint

FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command("lint")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@output_option("json", "yaml")
def lint_files(files: tuple[Path, ...], output: str | None) -> None:
    """Check FILEs without a cluster: the CRD's schema, the admission policy, the operator's limits; - is standard input.

    The limits are those of the chart's defaults. An administrator may have changed them.
    """
    results = {str(file): lint(_text(file)) for file in files}
    if output is not None:
        print_value([_fields(file, result) for file, result in results.items()], output)
    else:
        for file, result in results.items():
            _print(file, result)
    wrong = sum(len(result.findings) for result in results.values())
    if wrong:
        raise InvalidSpecError(f"{counted(wrong, 'finding')} in {counted(len(results), 'file')}.")


def _text(file: Path) -> str:
    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file} is not text in UTF-8: {error.reason}.") from error


def _print(file: str, result: LintedFile) -> None:
    for finding in result.findings:
        name = f" {finding.backfill}" if finding.backfill else ""
        click.echo(printable(f"{file}{name}: {finding}"))
    if not result.findings:
        others = f", {counted(result.others, 'document')} of other kinds not checked" if result.others else ""
        click.echo(f"{file}: {counted(result.backfills, 'Backfill')} valid{others}")


def _fields(file: str, result: LintedFile) -> dict[str, object]:
    found = [
        {"backfill": each.backfill, "path": each.path, "message": each.message, "hint": each.hint}
        for each in result.findings
    ]
    return {"file": file, "backfills": result.backfills, "others": result.others, "findings": found}
