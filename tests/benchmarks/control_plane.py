"""Measure the operator on one core, against a real API server on the same machine.

    python tests/benchmarks/control_plane.py --out build/bench/operator.json [--objects 10000] [--hostile 100] [--only launch,control,pause,scale,beside,finished]

The file is not called `operator.py`: a script's own folder comes first on the path, and the standard library has that module.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys
import time
from pathlib import Path

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import load_kube_config

ROOT = Path(__file__).parent.parent.parent
sys.path[0] = str(ROOT / "tests")

from support.bench_report import write_report  # noqa: E402
from support.cluster import harness as cluster_harness  # noqa: E402
from support.hostile.crowd import is_observed, place_crowd, remove_crowd  # noqa: E402
from support.operators.lone_operator import LoneOperator  # noqa: E402
from support.operators.rig import SPEC, RealApi, Rig  # noqa: E402

from backfill_api.names import ALL_JOBS_CONFIG_MAP, ALL_JOBS_KEY, API_VERSION, KIND  # noqa: E402
from backfill_operator.kube.client import Cluster  # noqa: E402
from backfill_operator.kube.resources import BACKFILLS, PODS  # noqa: E402
from backfill_operator.settings import OperatorSettings  # noqa: E402

BARS = {
    "launches_per_minute": ("1/min", 1500, "higher"), "launch_p99": ("s", 1.0, "lower"), "ack_p99": ("s", 2.0, "lower"),
    "pause_50_p99": ("s", 5.0, "lower"),
    "status_lag_p99": ("s", 5.0, "lower"), "rss_10k_mib": ("MiB", 512, "lower"), "startup_10k": ("s", 45, "lower"),
    "idle_cpu_share_10k": ("percent", 5, "lower"), "beside_startup": ("times", 1.25, "lower"), "beside_launch": ("times", 1.25, "lower"),
    "finished_startup": ("s", 120, "lower"), "rss_finished_mib": ("MiB", 512, "lower"),
    "finished_idle_cpu_share": ("percent", 5, "lower"), "forgotten_per_minute": ("1/min", 1500, "higher"),
}  # fmt: skip
OFFERED_PER_MINUTE = 300
KEPT_S = 86_400
FORGOTTEN = 10_000
"""Number of finished Backfills whose retention has expired at the next start of the operator."""
STARTUP_TIMEOUT_S = 86_400
EDITED = 100
"""Number of sound Backfills that are edited while no operator runs."""


def p99(values):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * 0.99))]


def own_target(name):
    """Return a target without another writer: messages about a shared target would change the measurement."""
    return {"type": "Delta", "delta": {"path": f"/data/{name}"}}


class Bench:
    def __init__(self, borrowed, objects, hostile):
        self.borrowed, self.objects, self.hostile = borrowed, objects, hostile
        self.figures, self.extra = {}, {}

    def put(self, name, value):
        self.figures[name] = round(value, 3)
        print(f"  {name} = {value:.3f} {BARS[name][0]} (bar {BARS[name][1]})", flush=True)

    @contextlib.asynccontextmanager
    async def place(self):
        """Yield a namespace, and a client without rate limits."""
        with cluster_harness.prepared(self.borrowed) as namespace:
            configuration = Configuration()
            await load_kube_config(config_file=str(self.borrowed.kubeconfig), client_configuration=configuration)
            settings = OperatorSettings(queries_per_second=5000, query_burst=5000, request_timeout_seconds=60)
            async with Cluster(configuration, settings) as cluster:
                yield namespace, cluster, configuration

    @staticmethod
    def backfill(name, **spec):
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": SPEC | {"target": own_target(name)} | spec,
        }

    @contextlib.asynccontextmanager
    async def pods_seen(self, configuration, namespace):
        """Yield the time at which each pod was first seen, by name, from a separate watch."""
        seen, host = {}, configuration.host
        context = RESTClientObject(configuration).ssl_context
        token = await configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
        headers = {"Authorization": token} if token else {}
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=timeout, read_bufsize=1 << 22
        ) as http:

            async def watch():
                async with http.get(f"{host}{PODS.path(namespace)}?watch=true") as answer:
                    async for line in answer.content:
                        event = json.loads(line)
                        if event["type"] == "ADDED":
                            seen.setdefault(event["object"]["metadata"]["name"], time.monotonic())

            task = asyncio.create_task(watch())
            try:
                yield seen
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    # ------------------------------------------------------------ launch
    async def launch(self):
        async with (
            self.place() as (namespace, cluster, configuration),
            LoneOperator(self.borrowed.kubeconfig, namespace) as operator,
        ):
            await operator.ready()
            async with self.pods_seen(configuration, namespace) as seen:
                await self._offered(cluster, namespace, seen)
                await self._flood(cluster, namespace, seen, operator)

    async def _offered(self, cluster, namespace, seen, number=150):
        """Create 300 a minute; measure the time from the response until the pod exists."""
        created_s = {}
        for index in range(number):
            due = time.monotonic() + 60 / OFFERED_PER_MINUTE
            await cluster.create(BACKFILLS, namespace, self.backfill(f"even-{index}"))
            created_s[f"even-{index}-1-driver"] = time.monotonic()
            await asyncio.sleep(max(0, due - time.monotonic()))
        await self._all(seen, created_s, 60)
        waits = [seen[name] - at for name, at in created_s.items()]
        self.extra["launch_p50"] = round(sorted(waits)[len(waits) // 2], 3)
        self.put("launch_p99", p99(waits))

    async def _flood(self, cluster, namespace, seen, operator, number=600):
        """Create all at once, and measure the pods per minute."""
        cpu, began = operator.cpu_s(), time.monotonic()
        names = {f"flood-{index}-1-driver" for index in range(number)}
        await asyncio.gather(
            *(cluster.create(BACKFILLS, namespace, self.backfill(f"flood-{index}")) for index in range(number))
        )
        await self._all(seen, names, 600)
        took = max(seen[name] for name in names) - began
        self.extra["launch_cpu_seconds"] = round((operator.cpu_s() - cpu) / number, 5)
        self.put("launches_per_minute", number / took * 60)

    @staticmethod
    async def _all(seen, names, within_s):
        deadline = time.monotonic() + within_s
        while not set(names) <= set(seen):
            assert time.monotonic() < deadline, f"{len(set(names) - set(seen))} pods are missing"
            await asyncio.sleep(0.05)

    # ------------------------------------------------------------ control
    @contextlib.asynccontextmanager
    async def running(self, drivers):
        """Yield a rig and the names of its running jobs, whose drivers have a barrier each second."""
        with cluster_harness.prepared(self.borrowed) as namespace:
            api = RealApi(self.borrowed.kubeconfig, namespace)
            api.store.garbage_collector = not self.borrowed.has_nodes
            async with (
                Rig(api, start=False, double={"barrier_s": 1.0}) as rig,
                LoneOperator(self.borrowed.kubeconfig, namespace, LEASE_NAMESPACE=namespace) as operator,
            ):
                await operator.ready()
                names = [f"job-{index}" for index in range(drivers)]
                for name in names:
                    rig.create(name, target=own_target(name))
                for name in names:
                    await rig.until_holds("Running", name, within_s=120)
                yield rig, names

    async def control(self, drivers=10, rounds=6):
        """Measure the delay from an edit of the spec to the acknowledgement, and from progress to status."""
        async with self.running(drivers) as (rig, names):
            acks = []
            for number in range(rounds):
                state = ["Paused", "Running"][number % 2]
                pending = {}
                for name in names:
                    pending[name] = len(rig.double(name).acks), time.monotonic()
                    rig.edit(name, desiredState=state)
                while pending:
                    for name, (before, at) in list(pending.items()):
                        if len(rig.double(name).acks) > before:
                            acks.append(time.monotonic() - at)
                            del pending[name]
                    await asyncio.sleep(0.01)
                for name in names:
                    await rig.until_holds(state, name, within_s=30)
            self.extra["ack_p50"] = round(sorted(acks)[len(acks) // 2], 3)
            self.put("ack_p99", p99(acks))
            lags = []
            for percent in range(30, 30 + rounds):
                at = time.monotonic()
                for name in names:
                    double = rig.double(name)
                    double.progress = double.progress.model_copy(update={"percent": percent})
                waiting = set(names)
                while waiting:
                    for name in list(waiting):
                        if rig.progress(name).get("percent") == percent:
                            lags.append(time.monotonic() - at)
                            waiting.discard(name)
                    await asyncio.sleep(0.02)
            self.put("status_lag_p99", p99(lags))

    async def pause(self, jobs=50):
        """Pause all jobs by the switch; measure the delay to the acknowledgement of each driver."""
        async with self.running(jobs) as (rig, names):
            before, acks = {name: len(rig.double(name).acks) for name in names}, []
            data = {ALL_JOBS_KEY: json.dumps({"enabled": True, "by": "benchmark"})}
            at = time.monotonic()
            rig.store.create("configmaps", rig.namespace, {"metadata": {"name": ALL_JOBS_CONFIG_MAP}, "data": data})
            while before:
                for name in [name for name, number in before.items() if len(rig.double(name).acks) > number]:
                    acks.append(time.monotonic() - at)
                    del before[name]
                await asyncio.sleep(0.01)
            self.put("pause_50_p99", p99(acks))

    # ------------------------------------------------------------ scale
    async def scale(self):
        """Measure the time until the operator has listed and settled many Backfills and driver pods of an earlier operator."""
        async with self.place() as (namespace, cluster, _):
            async with LoneOperator(self.borrowed.kubeconfig, namespace) as first:
                await first.ready()
                await self._populate(cluster, namespace)
                await self._settled(first)
                took = time.monotonic() - first.began
                print(f"  {self.objects} Backfills launched in {took:.0f} s", flush=True)
                self.extra["launches_per_minute_at_scale"] = round(self.objects / took * 60)
            async with LoneOperator(self.borrowed.kubeconfig, namespace) as operator:
                await self._settled(operator)
                self.put("startup_10k", time.monotonic() - operator.began)
                await asyncio.sleep(30)
                cpu, at = operator.cpu_s(), time.monotonic()
                await asyncio.sleep(OperatorSettings().relist_max_seconds)  # this time contains a full list
                self.put("idle_cpu_share_10k", 100 * (operator.cpu_s() - cpu) / (time.monotonic() - at))
                self.put("rss_10k_mib", operator.rss_mib())

    # ------------------------------------------------------------ finished
    async def finished(self):
        """Measure the time to list many finished Backfills, their memory, and the number deleted per minute."""
        spec = {"suspend": True, "ttlSecondsAfterFinished": KEPT_S}
        async with self.place() as (namespace, cluster, _):
            over = await self._over(cluster, namespace, self.backfill("first", **spec))
            began = time.monotonic()
            await self._populate(cluster, namespace, over, **spec)
            print(f"  {self.objects} were made in {time.monotonic() - began:.0f} s", flush=True)
            await self._listed(namespace)
            await self._forgotten(cluster, namespace, over)

    async def _over(self, cluster, namespace, body):
        """Record the operator's status of a finished Backfill; return a function that writes it into another, finished `for_s` ago."""

        async def write(backfill, status_template, over_at):
            meta = backfill["metadata"]
            conditions = [condition | {"lastTransitionTime": over_at} for condition in status_template["conditions"]]
            status = status_template | {"conditions": conditions, "completionTime": over_at}
            change, version = {"status": status}, meta["resourceVersion"]
            await cluster.patch(
                BACKFILLS, namespace, meta["name"], change, resource_version=version, subresource="status"
            )

        def timestamp(for_s=0.0):
            return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - for_s))

        complete = {"type": "Complete", "status": "True", "reason": "Complete"}
        backfill = await cluster.create(BACKFILLS, namespace, body)
        await write(backfill, {"phase": "Succeeded", "conditions": [complete], "observedGeneration": 1}, timestamp())
        async with LoneOperator(self.borrowed.kubeconfig, namespace) as operator:
            await self._settled(operator, "Succeeded", 1)
        raw = await cluster.get(BACKFILLS, namespace, body["metadata"]["name"])
        await cluster.delete(BACKFILLS, namespace, body["metadata"]["name"])
        return lambda backfill, for_s=0.0: write(backfill, raw["status"], timestamp(for_s))

    async def _listed(self, namespace):
        """Start the operator with the finished Backfills."""
        async with LoneOperator(self.borrowed.kubeconfig, namespace) as operator:
            await self._settled(operator, "Succeeded")
            self.put("finished_startup", time.monotonic() - operator.began)
            cpu, at = operator.cpu_s(), time.monotonic()
            await asyncio.sleep(60)
            self.put("finished_idle_cpu_share", 100 * (operator.cpu_s() - cpu) / (time.monotonic() - at))
            self.put("rss_finished_mib", operator.rss_mib())

    async def _forgotten(self, cluster, namespace, over):
        """Expire the retention of some, and start the operator with all."""
        expired = []
        async for page in cluster.pages(BACKFILLS, namespace):
            expired += page
            if len(expired) >= min(self.objects // 2, FORGOTTEN):
                break
        for at in range(0, len(expired), 32):
            await asyncio.gather(*(over(raw, 2 * KEPT_S) for raw in expired[at : at + 32]))
        async with LoneOperator(self.borrowed.kubeconfig, namespace) as operator:
            await operator.ready(within_s=600)
            began = time.monotonic()
            await self._settled(operator, "Succeeded", self.objects - len(expired))
            self.put("forgotten_per_minute", len(expired) / (time.monotonic() - began) * 60)
            self.put("rss_finished_mib", max(operator.rss_mib(), self.figures["rss_finished_mib"]))

    # ------------------------------------------------------------ beside
    async def beside(self, number=40):
        """Compare edits that a start finds, and later launches, with and without hostile Backfills, among many suspended ones."""
        async with self.place() as (namespace, cluster, configuration):
            await self._populate(cluster, namespace, suspend=True)
            with_it, without = [], []
            async with LoneOperator(self.borrowed.kubeconfig, namespace) as first:
                await self._settled(first, "Suspended")
            for figures, turn in ((without, "a"), (with_it, "b"), (with_it, "c"), (without, "d")):
                await (place_crowd if figures is with_it else remove_crowd)(
                    configuration, namespace, SPEC, self.hostile
                )
                figures.append(await self._started(cluster, namespace, configuration, turn, number))
            for position, name in enumerate(("beside_startup", "beside_launch")):
                alone, beside = (sum(figure[position] for figure in figures) / 2 for figures in (without, with_it))
                self.extra[name] = {"alone_s": round(alone, 3), "beside_s": round(beside, 3)}
                print(f"  {name}: {alone:.3f} s alone, {beside:.3f} s beside", flush=True)
                self.put(name, beside / alone)

    async def _started(self, cluster, namespace, configuration, turn, number):
        """Start the operator; return the seconds until it has seen edits of the others, and the median seconds of a launch."""
        edited = [f"job-{at}" for at in range(0, self.objects, max(1, self.objects // EDITED))]
        for name in edited:
            version = (await cluster.get(BACKFILLS, namespace, name))["metadata"]["resourceVersion"]
            change = {"spec": {"backoffLimit": ord(turn)}}
            await cluster.patch(BACKFILLS, namespace, name, change, resource_version=version)
        async with LoneOperator(self.borrowed.kubeconfig, namespace) as operator:
            for name in edited:
                while not is_observed(await cluster.get(BACKFILLS, namespace, name)):  # noqa: ASYNC110 - another process writes it
                    await asyncio.sleep(0.05)
            took, waits, cpu_s = time.monotonic() - operator.began, [], operator.cpu_s()
            async with self.pods_seen(configuration, namespace) as seen:
                for index in range(number):
                    name = f"{turn}-{index}"
                    await cluster.create(BACKFILLS, namespace, self.backfill(name))
                    began = time.monotonic()
                    await self._all(seen, {f"{name}-1-driver"}, 60)
                    waits.append(seen[f"{name}-1-driver"] - began)
            launch, launch_cpu_s = sorted(waits)[len(waits) // 2], (operator.cpu_s() - cpu_s) / number
        print(
            f"  {turn}: {took:.2f} s to start, {cpu_s:.2f} s of its core; {launch:.3f} s a launch, {launch_cpu_s:.3f} s of its core"
        )
        return took, launch

    async def _settled(self, operator, phase="Launching", number=None):
        """Wait until this many Backfills, or all, are in this phase, and the operator's queue is empty."""
        number = self.objects if number is None else number
        await operator.ready(within_s=600)
        while True:
            flying = await asyncio.to_thread(operator.metric, f'backfill_operator_backfills{{phase="{phase}"}}')
            depth = await asyncio.to_thread(operator.metric, "backfill_operator_queue_depth")
            if flying == number and not depth:
                break
            await asyncio.sleep(0.5)

    async def _populate(self, cluster, namespace, then=None, **spec):
        """Create Backfills whose pods no node will ever run, and which do not time out; `then` is called with each."""
        gate = asyncio.Semaphore(32)

        async def create(number):
            async with gate:
                body = self.backfill(f"job-{number}", startupTimeoutSeconds=STARTUP_TIMEOUT_S, **spec)
                backfill = await cluster.create(BACKFILLS, namespace, body)
                if then is not None:
                    await then(backfill)

        await asyncio.gather(*map(create, range(self.objects)))

    def report(self, out):
        more = {"objects": self.objects, "hostile": self.hostile, "server": self.borrowed.provider, "extra": self.extra}
        write_report(out, self.figures, BARS, **more)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default="build/bench/operator.json")
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--hostile", type=int, default=100, help="hostile Backfills of the part `beside`")
    parser.add_argument("--only", default="launch,control,pause,scale,beside")
    args = parser.parse_args()
    with cluster_harness.borrowed_cluster(os.environ) as borrowed:
        bench = Bench(borrowed, args.objects, args.hostile)
        for part in args.only.split(","):
            print(part, flush=True)
            asyncio.run(getattr(bench, part)())
        bench.report(args.out)


if __name__ == "__main__":
    main()
