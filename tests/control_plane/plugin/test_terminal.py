"""`kubectl backfill get NAME -w` in a real terminal: one block that is drawn again in place."""

import asyncio
import os
import sys

import pytest
from support.console.emulator import Emulator
from support.console.terminal import CTRL_C, Terminal
from support.operators.rig import Rig


def watching(rig, folder, *options, **size):
    """Start the command in a terminal."""
    words = ["get", "orders", "-w", "--kubeconfig", str(rig.api.kubeconfig(folder)), "-n", rig.namespace, *options]
    environment = os.environ | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    return Terminal([sys.executable, "-m", "backfill_kubectl", *words], env=environment, **size)


class TestTheBlock:
    """The block has the size of the terminal, and ends with the job."""

    @pytest.mark.parametrize(("columns", "lines"), [(100, 30), (60, 8)])
    async def test_block_is_drawn_in_place_until_the_job_ends(self, tmp_path, columns, lines):
        """No line is wider than the terminal, and the title is there once."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            terminal = watching(rig, tmp_path, columns=columns, lines=lines)
            await asyncio.to_thread(terminal.wait_for, "Running")

            rig.kubelet.finish(rig.driver())
            await asyncio.to_thread(terminal.wait_for, "Next: kubectl backfill receipt")

            assert await asyncio.to_thread(terminal.process.wait, 30) == 0
            screen = Emulator(columns, lines).feed(terminal.raw).text
            assert screen.count("shop/orders  ") <= 1, screen
            assert "Succeeded" in screen

    async def test_ctrl_c_leaves_the_block_and_changes_nothing(self, tmp_path):
        """Only the watch ends."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            terminal = watching(rig, tmp_path, "--ascii")
            await asyncio.to_thread(terminal.wait_for, "Running")

            terminal.press(CTRL_C)

            assert await asyncio.to_thread(terminal.process.wait, 30) == 130
            assert rig.phase() == "Running"
            assert terminal.text.replace("interrupted", "").isascii(), terminal.text
