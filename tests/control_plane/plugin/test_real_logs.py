"""`kubectl backfill logs -f` through a real API server, which streams from a kubelet that is a double."""

import asyncio
import subprocess

import pytest
from support.cluster.log_kubelet import LogKubelet
from support.console.terminal import PythonTerminal

SKIP = "--insecure-skip-tls-verify-backend"
"""The certificate of the double is signed by itself."""


def following(rig, *options):
    """Start the command; its output is a terminal, so each line arrives at once."""
    words = ["logs", "orders", "-f", SKIP, "--kubeconfig", str(rig.api.real_kubeconfig), "-n", rig.namespace, *options]
    return PythonTerminal(["-m", "backfill_kubectl", *words], columns=200, stdin=subprocess.DEVNULL)


async def shows(terminal, text):
    """Wait until the command prints a string."""
    await asyncio.to_thread(terminal.wait_for, text)


@pytest.fixture
def kubelet(real_cluster, tmp_path):
    """Yield the kubelet of the node to which the rig binds pods."""
    if real_cluster.has_nodes:
        pytest.skip("this cluster has nodes, whose kubelets know nothing of the pods of a rig")
    with LogKubelet(real_cluster.kubeconfig, tmp_path) as serving:
        yield serving


class TestFollowedLogs:
    """Each line is printed when it is written; the next attempts follow, until the job ends."""

    async def test_lines_arrive_one_by_one_over_two_attempts(self, kubelet, real):
        """The first driver is killed, and the second one completes the job."""
        async with real() as rig:
            rig.create()
            await rig.until_holds("Running")
            kubelet.write("orders-1-driver", "first attempt, first line")
            with following(rig) as terminal:
                await shows(terminal, "first attempt, first line")
                kubelet.write("orders-1-driver", "first attempt, \x1b[2J last line")
                await shows(terminal, "first attempt,  [2J last line")

                rig.kubelet.kill(rig.driver())
                kubelet.end("orders-1-driver")
                await shows(terminal, "the log of attempt 1 has ended")
                await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
                kubelet.write("orders-2-driver", "second attempt")
                await shows(terminal, "second attempt")
                rig.kubelet.finish(rig.driver("orders", 2))
                kubelet.end("orders-2-driver")

                assert (await asyncio.to_thread(terminal.ends))[0] == 0
                assert terminal.text.count("first attempt, first line") == 1

    async def test_a_broken_connection_repeats_and_loses_no_line(self, kubelet, real):
        """A load balancer ends a connection that has no traffic, and an API server ends all of them when it restarts."""
        async with real() as rig:
            rig.create()
            await rig.until_holds("Running")
            kubelet.write("orders-1-driver", "first line", "second line")
            with following(rig, "--tail", "1000") as terminal:
                await shows(terminal, "second line")
                kubelet.cut()
                kubelet.write("orders-1-driver", "third line")
                await shows(terminal, "third line")
                assert "has ended" not in terminal.text

                rig.kubelet.finish(rig.driver("orders", 1))
                kubelet.end("orders-1-driver")

                assert (await asyncio.to_thread(terminal.ends))[0] == 0
                assert [terminal.text.count(line) for line in ("first line", "second line", "third line")] == [1, 1, 1]

    async def test_log_of_a_deleted_job_ends(self, kubelet, real):
        """The job is deleted while its log is followed."""
        async with real() as rig:
            rig.create()
            await rig.until_holds("Running")
            kubelet.write("orders-1-driver", "the only line")
            with following(rig) as terminal:
                await shows(terminal, "the only line")
                rig.delete()
                await rig.until(lambda: rig.get() is None)
                kubelet.end("orders-1-driver")

                assert (await asyncio.to_thread(terminal.ends))[0] == 0

    async def test_log_of_a_pod_without_a_node_is_awaited(self, kubelet, real):
        """The API server answers with an empty log, which is not the end of the attempt."""
        async with real(start=False) as rig:
            rig.kubelet.held = True
            rig.start()
            rig.create()
            await rig.until(lambda: rig.pods())
            kubelet.write("orders-1-driver", "begins")
            with following(rig) as terminal:
                await shows(terminal, "waiting: the log of attempt 1 has not begun")

                rig.kubelet.held = False
                rig.store.patch("pods", *rig.driver(), {"metadata": {"annotations": {"example.org/news": "room"}}})
                await shows(terminal, "begins")
