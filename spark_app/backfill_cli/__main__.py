"""The `backfill` command."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from backfill import Settings
from backfill_cli.commands.control import pause, rescale, resume, stop, throttle, verify
from backfill_cli.commands.fence import fence, unfence
from backfill_cli.commands.history import history
from backfill_cli.commands.look import jobs, plan, status, validate
from backfill_cli.commands.options import ASCII, FILE, CommandGroup, in_folder_of, leave, parsed, read, spark_settings
from backfill_cli.commands.release import drop, release
from backfill_cli.commands.repair import repair
from backfill_cli.commands.switch import switch
from backfill_cli.commands.ui import ui
from backfill_cli.commands.usage_examples import epilog_of
from backfill_cli.commands.writing import completion, init, schema
from backfill_cli.terminal.amounts import parse_memory

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo"
"""Scripts of the demo, which are part of the repository and not of the wheel."""


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="backfill-operator")
@click.option("--debug", is_flag=True, help="Show the traceback of an unexpected error.")
def cli(debug: bool) -> None:
    """Fill a Delta table from another one that keeps changing: exactly once, with a commit every second, under control."""


@cli.command()
@FILE
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--refresh", is_flag=True, help="Also continue a finished job with the later changes of its source.")
@click.option("--set", "changes", multiple=True, metavar="PATH=VALUE", help="Change a field: spec.after=Follow.")
@click.option("--cores", type=click.IntRange(min=1), help="Threads of the embedded Spark.")
@click.option("--memory", callback=parsed(parse_memory), help="Heap of the embedded Spark, as 4g.")
@click.option("--driver-log", type=click.Path(dir_okay=False, path_type=Path), help="File for the messages of Spark.")
@spark_settings
@click.option("--no-color", is_flag=True, help="No colours; NO_COLOR does the same.")
@ASCII
@click.option("--grid", is_flag=True, help="With -o json: the parts of the snapshot in each line.")
@click.option("-q", "--quiet", is_flag=True, help="Show only the outcome.")
@click.option("-v", "--verbose", is_flag=True, help="Messages of Spark and the JVM on standard error.")
def run(
    file: Path | None,
    output: str,
    refresh: bool,
    changes: tuple[str, ...],
    cores: int | None,
    memory: str | None,
    driver_log: Path | None,
    no_color: bool,
    ascii_only: bool,
    conf: dict[str, str],
    grid: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Run the job on an embedded Spark; Ctrl-C stops at a barrier, a second one at once."""
    given = {name: value for name, value in (("cores", cores), ("memory", memory)) if value is not None}
    job = read(file, changes, conf, Settings.from_environ().model_copy(update=given))
    from backfill_cli.commands.run import RunCommand, Shown

    shown = Shown(
        json_lines=output == "json",
        colour=not no_color,
        ascii_only=ascii_only,
        log_file=driver_log and driver_log.absolute(),
        grid=grid,
        quiet=quiet,
        verbose=verbose,
    )
    with in_folder_of(file):
        code = RunCommand(job.refreshing() if refresh else job, shown).to_end()
    leave(code)


@cli.command()
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Scratch folder; default: a temporary one.",
)
@click.option("--rows", type=click.IntRange(min=100_000), default=3_000_000, show_default=True)
@click.option(
    "--strategy",
    type=click.Choice(["Arrangement", "InPlace", "Replica", "Snapshot"]),
    default="Snapshot",
    show_default=True,
)
def demo(folder: Path | None, rows: int, strategy: str) -> None:
    """Show the product on real tables with live changes, in two to three minutes; needs a clone."""
    if not DEMO.is_dir():
        raise click.UsageError("The demo is part of the repository, not of the package: clone it and run `make demo`.")
    sys.path.insert(0, str(DEMO.parent))
    leave(importlib.import_module("demo.orders").run_demo(folder, rows, strategy))


LOOK, CONTROL = (init, validate, plan, status, jobs, history, ui), (pause, resume, throttle, rescale, verify, stop)
for command in (*LOOK, *CONTROL, fence, unfence, switch, repair, release, drop, schema, completion):
    cli.add_command(command)
for name, command in (("", cli), *cli.commands.items()):
    command.epilog = epilog_of(name)


def main() -> None:
    """Enter from the command line."""
    cli(prog_name="backfill")


if __name__ == "__main__":
    main()
