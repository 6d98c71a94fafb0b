"""Measure the scrape of an operator with many running Backfills: its size, its time, and the memory that it takes.

    python tests/benchmarks/job_metrics.py --out build/bench/job_metrics.json [--objects 10000]

The operator's cache and its HTTP port run in a separate process on one core; every Backfill runs and has each figure.
"""

import argparse
import asyncio
import gzip
import multiprocessing
import os
import re
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
sys.path[0] = str(ROOT / "tests")

from support.bench_report import write_report  # noqa: E402
from support.operators.finished import finished  # noqa: E402
from support.operators.running_jobs import NOW_MS, running_job  # noqa: E402

from backfill_operator.health import METRICS_EVERY_S, Health  # noqa: E402
from backfill_operator.informer.cache import Cache  # noqa: E402
from backfill_operator.informer.relist import Relist  # noqa: E402
from backfill_operator.job_metrics import JobMetrics  # noqa: E402
from backfill_operator.metrics import Metrics  # noqa: E402
from backfill_operator.settings import OperatorSettings  # noqa: E402

BARS = {
    "scrape_mb": ("MB", 1.0, "lower"), "scrape_s": ("s", 2.0, "lower"), "scrape_cpu_s": ("s", 2.0, "lower"), "scrape_memory_mib": ("MiB", 30, "lower"),
    "scrape_mb_random_names": ("MB", 1.5, "lower"), "scrape_mb_finished": ("MB", 1.0, "lower"),
}  # fmt: skip
SCRAPES = 7
POPULATIONS = {
    "running": running_job,
    "random_names": lambda number: running_job(number, random_name=True),
    "finished": finished,
}


def forget_peak():
    """Set the peak of this process's memory to the current value."""
    Path("/proc/self/clear_refs").write_text("5")


def memory_mib(field):
    """Return a field of this process's memory, such as `VmRSS` or `VmHWM`."""
    text = Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+) kB", text)[1]) / 1024


def serve(population, objects, pipe):
    """Serve the metrics of many Backfills until the client has finished; send the port and the memory before and after."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
    cache = Cache()
    for number in range(objects):
        cache.put_backfill(POPULATIONS[population](number))

    async def live():
        settings = OperatorSettings(identity="a", bind="127.0.0.1", health_port=0, metrics_port=0)
        jobs = JobMetrics(cache, settings.job_metrics_max, leads=lambda: True, now_ms=lambda: NOW_MS)
        metrics = Metrics(cache.phases, jobs.chunks)
        relist = Relist(None, cache, settings, metrics, enqueue=lambda _: None, monotonic=time.monotonic)
        async with Health(settings, relist, None, metrics).served() as (_, port):
            before = memory_mib("VmRSS")
            forget_peak()
            pipe.send(port)
            cpu_s = time.process_time()
            await asyncio.to_thread(pipe.recv)
            pipe.send((before, memory_mib("VmHWM"), memory_mib("VmRSS"), (time.process_time() - cpu_s) / SCRAPES))

    asyncio.run(live())


def scrape(port):
    """Return the compressed body, and the seconds until it was complete."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept-Encoding": "gzip"})
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        return answer.read(), time.monotonic() - began


def measure(population, objects):
    """Return size in MB, median seconds, CPU seconds of a scrape, peak and lasting memory in MiB, and the number of series."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=serve, args=(population, objects, theirs))
    child.start()
    theirs.close()
    port, taken = ours.recv(), []
    for _ in range(SCRAPES):
        body, seconds = scrape(port)
        taken.append(seconds)
        time.sleep(METRICS_EVERY_S)
    ours.send("end")
    before, peak, after, cpu_s = ours.recv()
    child.join()
    lines = gzip.decompress(body).decode().splitlines()
    series = sum(line.startswith("backfill_job_") for line in lines)
    return len(body) / 1e6, sorted(taken)[SCRAPES // 2], cpu_s, peak - before, after - before, series


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="build/bench/job_metrics.json")
    parser.add_argument("--objects", type=int, default=10_000)
    args = parser.parse_args()
    figures, extra = {}, {}
    for population in POPULATIONS:
        size, seconds, cpu_s, peak, lasting, series = measure(population, args.objects)
        extra[population] = {
            "mb": round(size, 3),
            "s": round(seconds, 2),
            "cpu_s": round(cpu_s, 2),
            "peak_mib": round(peak, 1),
            "lasting_mib": round(lasting, 1),
            "series": series,
        }
        print(f"  {population}: {extra[population]}", flush=True)
        if population == "running":
            figures |= {
                "scrape_mb": size,
                "scrape_s": seconds,
                "scrape_cpu_s": cpu_s,
                "scrape_memory_mib": max(peak, lasting),
            }
        else:
            figures[f"scrape_mb_{population}"] = size
    write_report(
        args.out, {name: round(value, 3) for name, value in figures.items()}, BARS, objects=args.objects, extra=extra
    )


if __name__ == "__main__":
    main()
