"""`kubectl backfill ui`: the page about the Backfills of a cluster."""

from __future__ import annotations

from contextlib import suppress

import click

from backfill_kubectl.commands.options import OPERATOR_NAMESPACE, Session, cluster_options


@click.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port of this machine; default: a free one.")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Backfills of all namespaces.")
@OPERATOR_NAMESPACE
@cluster_options
def ui(session: Session, port: int, everywhere: bool, operator_namespace: str) -> None:
    """Show Backfills in a browser, with pause, throttle and verify, until Ctrl-C.

    The page is served on 127.0.0.1 only, and has your rights on the cluster. The printed link opens one session.
    """
    from backfill_kubectl.commands.page.cluster_jobs import ClusterJobs
    from backfill_page.server.serve import listen, serve

    api, namespace = session.connect()
    try:
        opened = listen(port)
    except OSError as error:
        raise click.UsageError(
            f"--port {port} cannot be used: {error.strerror}. Leave it out for a free one."
        ) from error
    with suppress(KeyboardInterrupt):  # the server passes Ctrl-C on, unless its last task has ended already
        jobs = ClusterJobs(api, namespace, everywhere=everywhere, operator_namespace=operator_namespace)
        serve(jobs, opened, lambda link: click.echo(f"open {link}"))
    click.echo("the page has ended; the jobs continue", err=True)
