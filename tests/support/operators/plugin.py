"""`kubectl backfill` in this process, against the API server of a rig."""

import asyncio

from click.testing import CliRunner

from backfill_kubectl.__main__ import cli
from backfill_kubectl.commands.options import PROGRAM


def invoke(kubeconfig, namespace, *words):
    """Run the command; return its result with `output`, `stdout`, `stderr` and `exit_code`."""
    command, *rest = (str(word) for word in words)
    where = ["--kubeconfig", str(kubeconfig)] + ([] if namespace is None else ["-n", namespace])
    return CliRunner().invoke(cli, [command, *where, *rest], catch_exceptions=False, prog_name=PROGRAM)


class Plugin:
    """The command of a user with the rights of a kubeconfig."""

    def __init__(self, rig, folder):
        self.rig = rig
        # The fake server writes a kubeconfig; a real one has one.
        self.kubeconfig = rig.api.kubeconfig(folder) if hasattr(rig.api, "kubeconfig") else rig.api.real_kubeconfig

    async def __call__(self, *words):
        """Run the command in a thread, while the loop of the test runs the drivers."""
        return await asyncio.to_thread(invoke, self.kubeconfig, self.rig.namespace, *words)

    def start(self, *words):
        """Start the command; return the task of its result."""
        return asyncio.ensure_future(self(*words))

    async def done(self, *words):
        """Run the command; it must succeed. Return its standard output in one line per line."""
        result = await self(*words)
        assert result.exit_code == 0, result.output
        return result.stdout.strip()
