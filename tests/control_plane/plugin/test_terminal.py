"""`kubectl backfill get NAME -w` in a real terminal: one block that is drawn again in place."""

import asyncio
import os
import signal
import subprocess
import sys
import termios

import pytest
from support.console.emulator import Emulator
from support.console.terminal import CTRL_C, CTRL_Z, PythonTerminal, Terminal
from support.operators.rig import Rig

KEYS_LINE = "p pause  r resume  t throttle  v verify  l logs  e events  g grid  q quit"


def watching(rig, folder, *options, before=(), **size):
    """Start the command in a terminal; `before` are the first words of a command that runs it."""
    words = ["get", "orders", "-w", "--kubeconfig", str(rig.api.kubeconfig(folder)), "-n", rig.namespace, *options]
    environment = os.environ | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"}
    python = ["-m", "backfill_kubectl", *words]
    if before:
        return Terminal([*before, sys.executable, *python], env=environment, **size)
    return PythonTerminal(python, env=environment, **size)


def reads_lines(terminal):
    """Return whether the terminal echoes characters and waits for Enter, as a shell expects it."""
    modes = termios.tcgetattr(terminal.master)[3]
    return bool(modes & termios.ECHO and modes & termios.ICANON)


async def shown(terminal, *texts):
    """Wait until the terminal shows these strings, in this order."""
    for text in texts:
        await asyncio.to_thread(terminal.wait_for, text)


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


class TestKeys:
    """Keys command the job, and the block shows the acknowledgement."""

    async def test_keys_pause_resume_and_throttle_the_job(self, tmp_path):
        """The answer is that of the commands."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            with watching(rig, tmp_path, columns=200, lines=40) as terminal:
                await shown(terminal, KEYS_LINE)

                terminal.press(b"p")
                await shown(terminal, "changes continue. Acknowledged at epoch", "Undo: kubectl backfill resume orders")
                assert rig.double().progress.paused == "History"
                terminal.press(b"r")
                await shown(terminal, "without a limit. Acknowledged at epoch")
                terminal.press(b"t")
                await shown(terminal, "throttle to rows a second")
                terminal.press(b"50k\r")
                await shown(terminal, "limited to 50,000 rows/s")
                assert rig.double().progress.throttle_rows_per_second == 50_000
                terminal.press(b"v")
                await shown(terminal, "equal at source")
                terminal.press(b"q")

                assert (await asyncio.to_thread(terminal.ends))[0] == 0
                assert rig.holds("Running")

    async def test_keys_show_logs_events_and_grid(self, tmp_path):
        """A part that the server does not have is named."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            with watching(rig, tmp_path, columns=120, lines=30) as terminal:
                await shown(terminal, KEYS_LINE)

                for key, text in (
                    (b"e", "orders  events"),
                    (b"g", "the snapshot in"),
                    (b"l", "orders  logs"),
                    (b"l", "attempt 1"),
                ):
                    since = len(terminal.text)
                    terminal.press(key)
                    await asyncio.to_thread(terminal.wait_for, text, since=since)

    async def test_terminal_has_its_mode_after_every_end(self, tmp_path):
        """Otherwise the shell afterwards shows nothing of what a person types."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            ends = {
                0: lambda terminal: terminal.press(b"q"),
                130: lambda terminal: terminal.press(CTRL_C),
                128 + signal.SIGTERM: lambda terminal: terminal.send(signal.SIGTERM),
                128 + signal.SIGHUP: lambda terminal: terminal.send(signal.SIGHUP),
                128 + signal.SIGQUIT: lambda terminal: terminal.press(b"\x1c"),
            }
            for code, end in ends.items():
                with watching(rig, tmp_path, columns=120, lines=30) as terminal:
                    await shown(terminal, KEYS_LINE)
                    assert not reads_lines(terminal)

                    end(terminal)

                    assert (await asyncio.to_thread(terminal.ends))[0] == code
                    assert reads_lines(terminal)
                    assert terminal.raw.rindex("\x1b[?25h") > terminal.raw.rindex("\x1b[?25l"), "the cursor is hidden"

    async def test_terminal_has_its_mode_while_the_watch_is_stopped(self, tmp_path):
        """Ctrl-Z returns to the shell, and `fg` to the watch with its keys."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            shell = ("bash", "-c", 'set -m; "$@"; echo "stopped"; read -r line; echo "typed $line"; fg', "bash")
            with watching(rig, tmp_path, before=shell, columns=120, lines=30) as terminal:
                await shown(terminal, KEYS_LINE)

                terminal.press(CTRL_Z)
                await shown(terminal, "stopped\r\n")
                assert reads_lines(terminal)
                since = len(terminal.text)
                terminal.press(b"word\r")
                since = await asyncio.to_thread(terminal.wait_for, "typed word", since=since)
                await asyncio.to_thread(terminal.wait_for, KEYS_LINE, since=since)
                assert not reads_lines(terminal)
                terminal.press(b"q")

                assert (await asyncio.to_thread(terminal.ends))[0] == 0
                assert reads_lines(terminal)

    async def test_without_a_keyboard_there_are_no_keys(self, tmp_path):
        """The output may be a terminal while the input is not, as in a script."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            with watching(rig, tmp_path, columns=120, lines=30, stdin=subprocess.DEVNULL) as terminal:
                await shown(terminal, "attempt 1")
                assert reads_lines(terminal)
                rig.kubelet.finish(rig.driver())

                assert (await asyncio.to_thread(terminal.ends))[0] == 0
                assert "p pause" not in terminal.text
