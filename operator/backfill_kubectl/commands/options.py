"""Shared parts of the commands: options, the session with the cluster, and the output of values and errors."""

from __future__ import annotations

import functools
import json
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import yaml
from rich.console import Console

from backfill_api.plain_text import printable
from backfill_api.resources import BACKFILLS
from backfill_core.errors import EXIT_UNEXPECTED, EXIT_USAGE, BackfillError
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.kubeconfig import log_in
from backfill_kubectl.decisions.refusals import parse_name
from backfill_kubectl.drawing.console import PIPE_COLUMNS

EXIT_INTERRUPTED: Final = 130
EXIT_READER_GONE: Final = 141
PROGRAM: Final = "kubectl backfill"
PAGE_PACKAGES: Final = frozenset({"starlette", "jinja2", "uvicorn"})
"""Packages of the extra `ui`."""


@dataclass(frozen=True, slots=True)
class Session:
    """The cluster and the namespace of a command."""

    file: Path | None
    context: str | None
    given_namespace: str | None

    def connect(self) -> tuple[ApiServer, str]:
        """Return the API server and the namespace."""
        login = log_in(self.file, self.context, self.given_namespace)
        return ApiServer(login), login.namespace

    def find(self, text: str) -> tuple[ApiServer, str, str]:
        """Return the API server, and namespace and name of the Backfill that a user names.

        Raises:
            click.BadParameter: it cannot be a name.
        """
        try:
            namespace, name = parse_name(text)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="NAME") from error
        if namespace is not None and self.given_namespace not in (None, namespace):
            raise click.UsageError(f"{text} and --namespace {self.given_namespace} name different namespaces.")
        api, default = self.connect()
        return api, namespace or default, name


class PluginGroup(click.Group):
    """Prints an error as one line and a hint, and ends with its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except BackfillError as error:
            say_error(error.reason, error.message, error.hint)
            ctx.exit(error.exit_code)
        except (KeyboardInterrupt, click.Abort):
            click.echo("interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)
        except click.exceptions.Exit:
            raise
        except ModuleNotFoundError as error:
            if str(error.name).split(".")[0] not in PAGE_PACKAGES:
                raise
            say_error(
                "PackageMissing",
                f"this command needs {error.name}, which is not installed.",
                "pip install 'backfill-operator[kubectl,ui]'",
            )
            ctx.exit(EXIT_USAGE)
        except BrokenPipeError:
            sys.stderr.close()  # the interpreter would report the closed pipe at its end
            ctx.exit(EXIT_READER_GONE)
        except click.ClickException as error:
            context = getattr(error, "ctx", None)
            path = PROGRAM if context is None else context.command_path
            say_error("InvalidUsage", error.format_message(), f"See `{path} --help`.")
            ctx.exit(error.exit_code)
        except Exception as error:  # noqa: BLE001 - top level: users get one line, --debug shows the traceback
            if ctx.params.get("debug"):
                traceback.print_exc()
            first = str(error).strip().splitlines()
            text = f"{type(error).__name__}: {first[0] if first else ''}"
            say_error(
                "Unexpected", text, f"This is a bug, or an unknown case; `{PROGRAM} --debug …` shows the traceback."
            )
            ctx.exit(EXIT_UNEXPECTED)


def say_error(reason: str, message: str, hint: str = "") -> None:
    """Print an error and its remedy to standard error."""
    console = Console(stderr=True, highlight=False)
    console.print(f"error: {reason}: {printable(message).strip()}", style="red", markup=False, soft_wrap=True)
    if hint:
        console.print(f"hint: {printable(hint).strip()}", markup=False, soft_wrap=True)


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `-n`, `--context` and `--kubeconfig` to a command, which gets them as `session`."""

    @click.option("-n", "--namespace", metavar="NAMESPACE", help="Namespace; default: that of the context.")
    @click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: the current one.")
    @click.option(
        "--kubeconfig", type=click.Path(dir_okay=False, path_type=Path), help="File; default: KUBECONFIG, else ~/.kube/config.",
    )  # fmt: skip
    @functools.wraps(command)
    def with_session(
        *args: Any, namespace: str | None, context: str | None, kubeconfig: Path | None, **kwargs: Any
    ) -> Any:
        return command(*args, session=Session(kubeconfig, context, namespace), **kwargs)

    return with_session


def _names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of Backfills with a prefix, for completion in the shell; none if they cannot be listed."""
    session = Session(ctx.params.get("kubeconfig"), ctx.params.get("context"), ctx.params.get("namespace"))
    try:
        api, namespace = session.connect()
        names = [str(item["metadata"]["name"]) for page in api.pages(BACKFILLS, namespace) for item in page]
    except BackfillError:
        return []
    return sorted(name for name in names if name.startswith(incomplete))


NAME = click.argument("name", metavar="NAME", shell_complete=_names)
NAME_OR_NONE = click.argument("name", metavar="[NAME]", required=False, shell_complete=_names)

OPERATOR_NAMESPACE_DEFAULT: Final = "backfill-system"
OPERATOR_NAMESPACE = click.option(
    "--operator-namespace", metavar="NAMESPACE", default=OPERATOR_NAMESPACE_DEFAULT, show_default=True,
    help="Namespace of the operator.",
)  # fmt: skip


def output_option(*kinds: str) -> Callable[..., Any]:
    """Return the option `-o` with these formats in addition to the default."""
    return click.option("-o", "--output", type=click.Choice(kinds), help="Format; default: text.")


def now() -> datetime:
    """Return the current time."""
    return datetime.fromtimestamp(time.time(), UTC)


def columns() -> int:
    """Return the width of the terminal; 100 for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_COLUMNS


def say(lines: Iterable[str]) -> None:
    """Print lines to standard output."""
    click.echo("\n".join(lines))


def print_value(value: Any, output: str) -> None:
    """Print a value as JSON or YAML."""
    click.echo(json.dumps(value, indent=2) if output == "json" else yaml.safe_dump(value, sort_keys=False).rstrip())


def without_managers(raw: dict[str, Any]) -> dict[str, Any]:
    """Return an object without its managed fields, as kubectl prints it."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict):
        return raw
    return raw | {"metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}
