"""`doctor`, `version` and `completion`."""

from __future__ import annotations

from importlib import metadata
from typing import Any, Final

import click
from click.shell_completion import ShellComplete, get_completion_class

from backfill_api.plain_text import printable
from backfill_core.errors import BackfillError
from backfill_kubectl.cluster.installation import Installation, read_installation, read_schema
from backfill_kubectl.commands.options import (
    OPERATOR_NAMESPACE,
    Session,
    cluster_options,
    now,
    output_option,
    print_value,
    say,
)
from backfill_kubectl.decisions.installation import (
    Check,
    Unreadable,
    Verdict,
    check_crd,
    check_drivers,
    check_jobs,
    check_leader,
    check_operator,
)
from backfill_kubectl.decisions.stores import check_stores

DISTRIBUTION: Final = "backfill-operator"
COMMAND: Final = "kubectl-backfill"
SYMBOLS: Final[dict[Verdict, tuple[str, str]]] = {
    "ok": ("✔", "+"), "warning": ("▲", "!"), "fault": ("✖", "x"), "unknown": ("?", "?"),
}  # fmt: skip


def client_version() -> str:
    """Return the version of this package; `unknown` in a checkout that is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"


def checks_of(installation: Installation) -> list[Check]:
    """Return the lines of the page about an installation."""
    from backfill_api.crd.schema import open_api_schema

    server = installation.server
    client = client_version()
    lines = [Check("ok", "client", client)]
    if isinstance(server, Unreadable):
        lines.append(Check("fault", "API server", server.why))
    else:
        lines.append(Check("ok", "API server", str(server.get("gitVersion", "unknown version"))))
    return [
        *lines,
        check_crd(installation.schema, open_api_schema()),
        *check_operator(installation.deployments, client),
        check_leader(installation.lease, now()),
        check_drivers(installation.drivers),
        *check_stores(installation.stores),
        *check_jobs(installation.jobs),
    ]


def page_of(checks: list[Check], *, ascii_only: bool = False) -> list[str]:
    """Return the page as lines of text."""
    width = max(len(printable(check.title)) for check in checks)
    lines = []
    for check in checks:
        symbol = SYMBOLS[check.verdict][1 if ascii_only else 0]
        lines.append(
            f"{symbol} {printable(check.title).ljust(width)}  {check.verdict.ljust(7)}  {printable(check.detail)}"
        )
        lines += [f"{' ' * (width + 13)}{printable(check.remedy)}"] if check.remedy else []
    return lines


@click.command()
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Jobs and drivers of all namespaces.")
@OPERATOR_NAMESPACE
@click.option(
    "--lease", default="backfill-operator", show_default=True, help="Name of the operator's lease: the release."
)
@click.option("--ascii", "ascii_only", is_flag=True, help="Use ASCII symbols only.")
@output_option("json", "yaml")
@cluster_options
def doctor(
    session: Session, everywhere: bool, operator_namespace: str, lease: str, ascii_only: bool, output: str | None
) -> None:
    """Show one page about the installation: versions, CRD, operator, leader, drivers, stores, jobs that need a person."""
    api, namespace = session.connect()
    checks = checks_of(read_installation(api, None if everywhere else namespace, operator_namespace, lease, now()))
    if output is not None:
        fields = ("verdict", "title", "detail", "remedy")
        print_value([{field: getattr(check, field) for field in fields} for check in checks], output)
        return
    say(page_of(checks, ascii_only=ascii_only))


@click.command()
@click.option("--client", "client_only", is_flag=True, help="Do not connect to the cluster.")
@output_option("json", "yaml")
@cluster_options
def version(session: Session, client_only: bool, output: str | None) -> None:
    """Print the versions of this client, the API server, and the CRD."""
    versions: dict[str, Any] = {"client": client_version()}
    if not client_only:
        api, _ = session.connect()
        versions["apiServer"] = api.version().get("gitVersion", "unknown")
        try:
            from backfill_api.crd.schema import open_api_schema

            versions["crd"] = check_crd(read_schema(api), open_api_schema()).detail
        except BackfillError as error:
            versions["crd"] = error.message
    if output is not None:
        print_value(versions, output)
        return
    say(f"{name}: {printable(str(value))}" for name, value in versions.items())


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell for `kubectl-backfill`.

    `kubectl backfill` completes without it: kubectl runs `kubectl_complete-backfill`, which pip installs, too.
    """
    script = get_completion_class(shell)
    assert script is not None, "click has these three shells"
    variable = f"_{COMMAND.replace('-', '_').upper()}_COMPLETE"
    click.echo(script(context.find_root().command, {}, COMMAND, variable).source())


def completions_of(group: click.Command, arguments: list[str]) -> list[str]:
    """Return the completions of a command line, the last word of which is incomplete, in the format of kubectl."""
    *before, incomplete = arguments or [""]
    completions = ShellComplete(group, {}, COMMAND, "").get_completions(before, incomplete)
    lines = [f"{item.value}\t{item.help}" if item.help else item.value for item in completions if item.type == "plain"]
    return [*lines, ":4"]  # 4: do not complete names of files
