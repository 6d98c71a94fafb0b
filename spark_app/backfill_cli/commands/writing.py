"""Commands for the author of a manifest: init, schema, completion."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from backfill.draft import Probe, Request, draft, name_of, place_of
from backfill_api.crd import editor_schema
from backfill_api.spec.strategies import Strategy
from backfill_cli.terminal.steps import steps_shown

STRATEGIES = sorted(Strategy.VARIANTS)
LOCATION = "a path, a URI, a name in the catalog (shop.orders)"


def _ask(flag: str, value: str | None, question: str) -> str:
    """Return the value of a flag, or ask for it on a terminal.

    Raises:
        click.UsageError: Without a terminal nobody can answer; the message names the flag.
    """
    if value is not None:
        return value
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(f"give {flag}: {question}.")
    return str(click.prompt(f"{flag.removeprefix('--')} ({question})"))


def _columns(_ctx: click.Context, _param: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(part for part in (name.strip() for name in (value or "").split(",")) if part)


@click.command()
@click.option("--source", metavar="LOCATION", help=f"Source: {LOCATION}, or kafka://host:port/topic.")
@click.option("--target", metavar="LOCATION", help=f"Target: {LOCATION}.")
@click.option("--strategy", type=click.Choice(STRATEGIES), help="Default: proposed from the source.")
@click.option("--key", callback=_columns, metavar="COLUMN,…", help="Key columns; default: proposed from a sample.")
@click.option(
    "-f", "--file", "file", type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; default: NAME.yaml, with the name of the target. An existing file is never changed.",
)  # fmt: skip
def init(source: str | None, target: str | None, strategy: str | None, key: tuple[str, ...], file: Path | None) -> None:
    """Write a commented manifest for a source, with a proposal and its reason for each decision.

    It reads the source's metadata and a sample. On a terminal it asks for a missing source or target.
    """
    source = _ask("--source", source, f"{LOCATION}, or kafka://host:port/topic")
    target = _ask("--target", target, LOCATION)
    folder = Path.cwd() if file is None else file.resolve().parent
    ends = place_of(source, folder), place_of(target, folder)
    name = name_of(ends[1])
    file = file or Path(f"{name}.yaml")
    if not folder.is_dir():
        raise click.UsageError(f"the folder {folder} does not exist: create it, or choose another -f FILE.")
    if file.exists():
        raise click.UsageError(f"{file} exists and is not overwritten: choose another -f FILE, or remove it.")
    request = Request(name, *ends, strategy, key)
    job = Probe.between(request, folder)
    with steps_shown(job) as on_step:
        seen = job.source_facts(on_step=on_step)
    text = draft(request, seen, file=file.name)
    schema = folder / editor_schema.SCHEMA_NAME
    if not schema.exists():
        schema.write_text(editor_schema.render(), encoding="utf-8")
    with file.open("x", encoding="utf-8") as out:
        out.write(text)
    click.echo(text, nl=False)
    click.echo(f"wrote {file}; next: backfill plan -f {file}", err=True)


@click.command()
def schema() -> None:
    """Print the JSON Schema of a manifest, with which editors complete and check the fields."""
    click.echo(editor_schema.render(), nl=False)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and running jobs in a shell."""
    root = context.find_root()
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(root.command, {}, "backfill", "_BACKFILL_COMPLETE").source())
