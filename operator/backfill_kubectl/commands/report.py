"""`report`: a bundle for a ticket, without secrets."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import yaml

from backfill_api.resources import BACKFILLS
from backfill_core.errors import BackfillError
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.installation import read_installation
from backfill_kubectl.cluster.job_watch import read_events, read_pods
from backfill_kubectl.commands.about import checks_of, client_version, page_of
from backfill_kubectl.commands.logs import CONTAINER
from backfill_kubectl.commands.options import NAME, OPERATOR_NAMESPACE, Session, cluster_options, now
from backfill_kubectl.decisions.redaction import redact, redact_text
from backfill_kubectl.decisions.stored import Json, read_stored

LOG_LINES: Final = 5000
PODS_MAX: Final = 20
README: Final = """\
Report of kubectl backfill {version} about {key}, {time}.

backfill.yaml   the object, with its status
pods.yaml       its pods
events.json     events of the object and of its driver
logs/           the last {lines} lines of each driver that exists
doctor.txt      the installation

Values with the name or the form of a secret are replaced by REDACTED. Paths, names, SQL and messages are included: look
through the files before you send them.
"""


@click.command()
@NAME
@click.option(
    "--file",
    "target",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Bundle to write; default: backfill-report-NAME-TIME.zip.",
)
@OPERATOR_NAMESPACE
@click.option(
    "--lease", default="backfill-operator", show_default=True, help="Name of the operator's lease: the release."
)
@cluster_options
def report(session: Session, name: str, target: Path | None, operator_namespace: str, lease: str) -> None:
    """Write a bundle about a Backfill for a ticket: object, pods, events, logs, installation. Secrets are removed."""
    api, namespace, job = session.find(name)
    raw = api.get(BACKFILLS, namespace, job)
    moment = now()
    target = target or Path(f"backfill-report-{job}-{moment:%Y%m%d-%H%M%S}.zip")
    installation = read_installation(api, namespace, operator_namespace, lease, moment)
    readme = README.format(
        version=client_version(), key=f"{namespace}/{job}", time=f"{moment:%Y-%m-%dT%H:%M:%SZ}", lines=LOG_LINES
    )
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("README.txt", readme)
        bundle.writestr("doctor.txt", redact_text("\n".join(page_of(checks_of(installation)))))
        for file, text in _parts(api, raw, namespace):
            bundle.writestr(file, text)
            click.echo(file, err=True)
    click.echo(f"{target}: look through it before you send it; paths, names and messages are included")


def _parts(api: ApiServer, raw: Json, namespace: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a bundle, without secrets; a part that cannot be read has the reason instead."""
    yield "backfill.yaml", _yaml(raw)
    backfill = read_stored(raw)
    events = _allowed(lambda: read_events(api, backfill))
    yield "events.json", json.dumps(redact(events), indent=2)
    pods = _allowed(lambda: read_pods(api, backfill))
    yield "pods.yaml", _yaml(pods)
    if not isinstance(pods, list):
        return
    drivers = [pod for pod in pods if str(pod["metadata"]["name"]).endswith("-driver")]
    for pod in drivers[-PODS_MAX:]:
        driver = str(pod["metadata"]["name"])
        yield f"logs/{driver}.log", redact_text(_log(api, namespace, driver))


def _log(api: ApiServer, namespace: str, driver: str) -> str:
    query = {"container": CONTAINER, "tailLines": str(LOG_LINES)}
    lines = _allowed(lambda: list(api.log(namespace, driver, query)))
    return lines if isinstance(lines, str) else b"".join(lines).decode(errors="replace")


def _yaml(value: Any) -> str:
    return yaml.safe_dump(redact(value), sort_keys=False, allow_unicode=True)


def _allowed(read: Callable[[], list[Any]]) -> list[Any] | str:
    try:
        return read()
    except BackfillError as error:
        return error.message
