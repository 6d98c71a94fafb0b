"""Shared parts of the commands: options, the choice of the job, and the output of errors."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, TextIO, cast

import click
import yaml
from rich.console import Console

from backfill import Backfill, BackfillError, Settings
from backfill.control import drivers
from backfill.errors import EXIT_UNEXPECTED, EXIT_USAGE, InvalidSpecError
from backfill_api.load import SpecError
from backfill_api.plain_text import printable

TIMEOUT_S = 10.0
EXIT_INTERRUPTED = 130
EXIT_READER_GONE = 141
"""Exit code of tools that SIGPIPE ends, as in `git log | head`."""

LOG_FILE = "backfill_cli.log_file"
"""Key in the context of a command for the path of its log file, or `None`."""

FILE = click.option(
    "-f",
    "--file",
    "file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="The Backfill, as YAML; - is standard input. Relative paths in it are relative to the file.",
)


def _running_jobs(_ctx: click.Context, _param: click.Parameter, prefix: str) -> list[str]:
    """Return the local running jobs that start with a prefix, for completion in the shell."""
    jobs = [driver.address.job_id for driver in drivers(Settings.from_environ().state_dir)]
    return [job for job in jobs if job.startswith(prefix)]


JOB = click.option(
    "--job", metavar="ID", shell_complete=_running_jobs,
    help="Job id; default without a file: the only running job.",
)  # fmt: skip
WAIT = click.option(
    "--timeout", "wait_s", type=click.FloatRange(min=0), default=TIMEOUT_S, show_default=True, metavar="SECONDS",
    help="Seconds to wait for the acknowledgement.",
)  # fmt: skip
OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)

ASCII = click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")

EXTRAS = {
    "pyspark": "spark",
    "py4j": "spark",
    "delta": "spark",
    "prometheus_client": "spark",
    "rich": "cli",
    "kopf": "operator",
    "starlette": "ui",
    "jinja2": "ui",
    "uvicorn": "ui",
}
"""Packages that a command may lack, each with the extra that installs it."""


def spark_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--conf` and `--packages` to a command, which gets both as `conf`: settings by name."""

    @click.option(
        "--conf", "given", multiple=True, metavar="NAME=VALUE", help="A setting of Spark, laid over spec.spark.conf."
    )
    @click.option("--packages", metavar="GROUP:NAME:VERSION,…", help="Jars that Spark fetches with their dependencies.")
    @functools.wraps(command)
    def with_conf(*args: Any, given: tuple[str, ...], packages: str | None, **kwargs: Any) -> Any:
        conf = {"spark.jars.packages": packages} if packages else {}
        for setting in given:
            name, equals, value = setting.partition("=")
            if not equals or not name.startswith("spark."):
                raise click.UsageError(f"--conf {setting!r}: write it as spark.name=value")
            conf[name] = value
        return command(*args, conf=conf, **kwargs)

    return with_conf


class CommandGroup(click.Group):
    """Prints an error as one red line and a hint, and ends with its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except BackfillError as error:
            cause = error.__cause__
            if isinstance(cause, SpecError):
                for field_error in cause.errors:
                    say_error(InvalidSpecError.reason, str(field_error))
                if cause.excerpt:
                    click.echo(cause.excerpt, err=True)
            else:
                say_error(error.reason, error.message, error.hint)
            _name_log(ctx)
            ctx.exit(error.exit_code)
        except ModuleNotFoundError as error:
            extra = EXTRAS.get(str(error.name).split(".")[0])
            if extra is None:
                raise
            say_error("PackageMissing", f"this command needs {error.name}, which is not installed.", pip_line(extra))
            ctx.exit(EXIT_USAGE)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)
        except click.exceptions.Exit:
            raise
        except BrokenPipeError:  # a closed pipe, as of `| head`, is not an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes at its end
            ctx.exit(EXIT_READER_GONE)
        except click.ClickException as error:
            say_usage(error)
            ctx.exit(error.exit_code)
        except Exception as error:  # noqa: BLE001 - top level: users get one line, --debug shows the traceback
            if ctx.params.get("debug"):
                traceback.print_exc()
            first = str(error).strip().splitlines()
            say_error(
                BackfillError.reason, f"{type(error).__name__}: {first[0] if first else ''}",
                "This is a bug, or an unknown case; `backfill --debug …` shows the traceback.",
            )  # fmt: skip
            _name_log(ctx)
            ctx.exit(EXIT_UNEXPECTED)


def _name_log(ctx: click.Context) -> None:
    """Print the path of the log file of a command that failed, if Spark wrote to it."""
    log_file = ctx.meta.get(LOG_FILE)
    if log_file is not None and log_file.exists() and log_file.stat().st_size:
        click.echo(f"log: {log_file}", err=True)


def pip_line(extra: str) -> str:
    """Return the command that installs a missing extra and the command line."""
    return f"pip install 'backfill-operator[{','.join(dict.fromkeys(('cli', extra)))}]'"


def say_usage(error: click.ClickException) -> None:
    """Print an error of a command's options in the format of all errors."""
    context = getattr(error, "ctx", None)
    message = error.format_message()
    extra = re.fullmatch(r"Got unexpected extra arguments? \((\S+\.ya?ml)\)", message)
    path = "backfill" if context is None else context.command_path
    hint = f"Write it as `{path} -f {extra[1]}`." if extra else f"See `{path} --help`."
    say_error("InvalidUsage", message, hint)


def say_error(reason: str, message: str, hint: str = "", *, console: Console | None = None) -> None:
    """Print an error and its remedy, by default to standard error."""
    console = console or terminal(sys.stderr)
    console.print(f"error: {reason}: {printable(message).strip()}", style="red", markup=False, soft_wrap=True)
    if hint:
        console.print(f"hint: {printable(hint).strip()}", markup=False, soft_wrap=True)


class _PipedConsole(Console):
    """A console whose closed pipe raises `BrokenPipeError`, as `click.echo` does; rich's console exits with code 1."""

    ascii_only = False
    """Blocks are drawn in ASCII, as on a terminal whose encoding is not UTF."""

    @property
    def encoding(self) -> str:
        """Return the encoding of the stream; rich draws for it."""
        return "ascii" if self.ascii_only else super().encoding

    def on_broken_pipe(self) -> None:
        """Raise the error that rich caught."""
        raise BrokenPipeError


def terminal(stream: TextIO | io.TextIOBase, *, colour: bool = True, ascii_only: bool = False) -> Console:
    """Return a console for a stream; `NO_COLOR` and `TERM=dumb` switch colours off."""
    console = _PipedConsole(file=cast("TextIO", stream), no_color=None if colour else True, highlight=False)
    console.ascii_only = ascii_only
    return console


def read(
    file: Path | None,
    changes: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
    settings: Settings | None = None,
) -> Backfill:
    """Load a file, and apply `path=value` changes to it.

    Raises:
        InvalidSpecError: The file, or the file with the changes, is not a Backfill.
        click.UsageError: No file was given, or a change is not `path=value`.
    """
    if file is None:
        raise click.UsageError("give the Backfill with -f FILE")
    try:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{file} is not text in UTF-8: {error.reason}") from error
    folder = None if str(file) == "-" else file.resolve().parent
    job = Backfill.of(text, folder=folder, settings=settings)
    if not changes and not conf:
        return job
    document = job.document
    for change in changes:
        path, equals, value = change.partition("=")
        if not equals or not path:
            raise click.UsageError(f"--set {change!r}: write it as spec.field=value")
        _put(document, path.split("."), _value(change, value))
    for name, value in (conf or {}).items():
        _put(document, ["spec", "spark", "conf", name], value)
    return Backfill.of(document, folder=folder, settings=settings)


def _value(change: str, text: str) -> Any:
    if text.lstrip()[:1] in ("{", "["):
        with suppress(ValueError):  # JSON is not a subset of YAML, so both parsers are tried
            return json.loads(text)
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        raise click.UsageError(f"--set {change!r}: {text!r} is not YAML; put it in quotes") from error


@contextmanager
def in_folder_of(file: Path | None) -> Iterator[None]:
    """Change to the folder of a file, so that its relative paths are relative to the file; standard input changes nothing."""
    here = file is None or str(file) == "-"
    with nullcontext() if here or file is None else chdir(file.resolve().parent):
        yield


def _put(document: dict[str, Any], path: list[str], value: Any) -> None:
    place = document
    for part in path[:-1]:
        deeper = place.setdefault(part, {})
        if not isinstance(deeper, dict):
            raise click.UsageError(f"--set {'.'.join(path)}: {part} has no fields")
        place = deeper
    place[path[-1]] = value


def job_of(file: Path | None, job: str | None) -> str | None:
    """Return the job id of the options; `None` for the only running job."""
    return read(file).job_id if file else job


def parsed(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a click callback that parses; a `ValueError` becomes a usage error."""

    def convert(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error

    return convert


def leave(code: int) -> None:
    """End with an exit code."""
    sys.exit(code)
