"""Measure the page and the watch of a terminal: first paint, update after a commit, CPU of a watcher.

    python tests/benchmarks/alone/console.py --out build/bench/console.json [--jobs 1000] [--updates 10]

Drivers are doubles, and the API server is the fake one; operator, page, command and browser are real.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from support.bench_report import write_report  # noqa: E402
from support.browser import chromium  # noqa: E402
from support.console.command_line import running  # noqa: E402
from support.console.terminal import Terminal  # noqa: E402
from support.operators.plugin import Plugin  # noqa: E402
from support.operators.rig import Rig  # noqa: E402
from support.page.serving import serving  # noqa: E402

from backfill_cli.page.local_jobs import LocalJobs  # noqa: E402
from backfill_kubectl.cluster.api import ApiServer  # noqa: E402
from backfill_kubectl.cluster.kubeconfig import log_in  # noqa: E402
from backfill_kubectl.commands.page.cluster_jobs import ClusterJobs  # noqa: E402

BARS = {
    "page_paint_local": ("s", 0.5, "lower"), "page_paint_cluster": ("s", 0.5, "lower"),
    "page_update_local": ("s", 1.5, "lower"), "page_update_cluster": ("s", 3.0, "lower"),
    "watch_paint": ("s", 1.0, "lower"), "watch_cpu": ("percent", 5, "lower"),
}  # fmt: skip
PAINT = "performance.getEntriesByName('first-contentful-paint').map(entry => entry.startTime)[0]"
ROWS, WATCH_S, WAIT_S = 10_000_000, 20.0, 60.0
KEYS = "p pause  r resume"


@contextmanager
def tab(source):
    """Yield a tab of a browser with a session of the page."""
    with serving(source) as client, chromium() as browser:
        client.open()
        context = browser.new_context(base_url=client.origin)
        name, _, value = client.cookie.partition("=")
        context.add_cookies([{"name": name, "value": value, "url": client.origin}])
        yield context.new_page()


def painted_s(page, key):
    """Return the seconds from the request of a job's view to its first paint, the median of five."""
    page.goto("/")  # the browser has started, and its cache has the styles
    seconds = []
    for _ in range(5):
        page.goto(f"/job?key={key}")
        # The policy of the page forbids scripts that wait in it.
        while (painted := page.evaluate(PAINT)) is None:
            page.wait_for_timeout(20)
        seconds.append(painted / 1000)
    return median(seconds)


def updates_s(page, commit, updates):
    """Return the seconds from each commit until the page shows its rows; `commit` makes one, and returns the rows."""
    seconds = []
    for _ in range(updates):
        rows, began_s = commit(), time.monotonic()
        page.get_by_text(f"{rows:,} of").first.wait_for(timeout=WAIT_S * 1000)
        seconds.append(time.monotonic() - began_s)
    return seconds


def local(updates):
    """Measure the page of a job of this machine; return first paint, and the update times."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as job:
        job.progress = job.progress.model_copy(update={"rows_total": ROWS})

        def commit():
            job.progress = job.progress.model_copy(update={"rows_done": job.progress.rows_done + 1000})
            return job.progress.rows_done

        with tab(LocalJobs(Path(folder))) as page:
            return painted_s(page, "default/job"), updates_s(page, commit, updates)


async def cluster(jobs, updates):
    """Measure the page of a cluster, and the watch of a terminal while there are many Backfills."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with Rig() as rig:
            rig.create("orders")
            await rig.until_holds("Running", "orders", WAIT_S)
            double = rig.double("orders")
            double.progress = double.progress.model_copy(update={"rows_total": ROWS})

            def commit():
                double.progress = double.progress.model_copy(update={"rows_done": double.progress.rows_done + 1000})
                return double.progress.rows_done

            plugin = Plugin(rig, folder)
            source = ClusterJobs(
                ApiServer(log_in(plugin.kubeconfig, None, rig.namespace)), rig.namespace, everywhere=False
            )

            def measure():
                with tab(source) as page:
                    return painted_s(page, f"{rig.namespace}/orders"), updates_s(page, commit, updates)

            paint_s, update_s = await asyncio.to_thread(measure)
            for number in range(jobs - 1):
                rig.create(
                    f"other{number}", suspend=True, target={"type": "Delta", "delta": {"path": f"/data/{number}"}}
                )
            await rig.until(lambda: all(rig.phase(f"other{number}") for number in range(jobs - 1)), 600)
            watch = await asyncio.to_thread(watched, plugin.kubeconfig, rig.namespace)
    return paint_s, update_s, watch


def watched(kubeconfig, namespace):
    """Return the seconds until `kubectl backfill get NAME -w` has drawn the job, and its percentage of a core afterwards."""
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}}
    words = ["get", "--kubeconfig", str(kubeconfig), "-n", namespace, "orders", "-w"]
    began_s = time.monotonic()
    with Terminal(
        [sys.executable, "-m", "backfill_kubectl", *words],
        env={**kept, "TERM": "xterm-256color"},
        columns=110,
        lines=30,
    ) as terminal:
        terminal.wait_for(KEYS)
        paint_s, before_s = time.monotonic() - began_s, cpu_s(terminal.process.pid)
        threading.Event().wait(WATCH_S)
        used = 100 * (cpu_s(terminal.process.pid) - before_s) / WATCH_S
        terminal.press(b"q")
        terminal.ends()
    return paint_s, used


def cpu_s(pid):
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    """Measure all; write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--out", default="build/bench/console.json")
    args = parser.parse_args()
    paint_s, update_s = local(args.updates)
    cluster_paint_s, cluster_update_s, (watch_s, used) = asyncio.run(cluster(args.jobs, args.updates))
    figures = {
        "page_paint_local": paint_s, "page_paint_cluster": cluster_paint_s, "page_update_local": max(update_s),
        "page_update_cluster": max(cluster_update_s), "watch_paint": watch_s, "watch_cpu": used,
    }  # fmt: skip
    write_report(
        args.out, {name: round(value, 2) for name, value in figures.items()}, BARS, jobs=args.jobs,
        updates_local=update_s, updates_cluster=cluster_update_s, load=os.getloadavg()[0],
    )  # fmt: skip


if __name__ == "__main__":
    main()
