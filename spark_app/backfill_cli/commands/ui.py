"""`backfill ui`: the page about the jobs of this machine."""

from __future__ import annotations

from contextlib import suppress

import click

from backfill import Settings


@click.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port of this machine; default: a free one.")
def ui(port: int) -> None:
    """Show the jobs of this machine in a browser, with pause, throttle and verify, until Ctrl-C.

    The page is served on 127.0.0.1 only. The printed link opens one session.
    """
    from backfill_cli.page.local_jobs import LocalJobs
    from backfill_page.server.serve import listen, serve

    try:
        opened = listen(port)
    except OSError as error:
        raise click.UsageError(
            f"--port {port} cannot be used: {error.strerror}. Leave it out for a free one."
        ) from error
    with suppress(KeyboardInterrupt):  # the server passes Ctrl-C on, unless its last task has ended already
        serve(LocalJobs(Settings.from_environ().state_dir), opened, lambda link: click.echo(f"open {link}"))
    click.echo("the page has ended; the jobs continue", err=True)
