"""One whole run on a real node: kubectl, the operator of this checkout, pods of the image, a writer that does not stop.

    BACKFILL_TEST_CLUSTER=…/cluster make e2e-smoke

The lake is a folder of this machine, so the node must see this machine's files: the kit's does, kind's and k3d's only
with a mount of `/var/tmp/backfill-lake`.
"""

import contextlib
import json
import os
import shutil
import time
from pathlib import Path

import pytest
import yaml
from support import cluster_harness, oracle
from support.real_node import IMAGE, ROOT, Node, Writer, build_image, seconds

EXAMPLE = ROOT / "examples" / "orders-cluster.yaml"
LAKE = Path("/var/tmp/backfill-lake")
REPORT = ROOT / "build" / "e2e"
ROWS = int(os.environ.get("BACKFILL_E2E_ROWS", "400000"))
SLOW = float(os.environ.get("BACKFILL_E2E_SLOW", "1"))
"""On a busy machine everything takes longer; so many times."""

QUIET_S = 3

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def node():
    """A namespace of a real node, ready for `kubectl apply`."""
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(cluster_harness.borrowed_cluster(os.environ, nodes=True))
            made = Node(cluster, os.environ)
        except (cluster_harness.NoClusterError, FileNotFoundError) as none:
            pytest.skip(f"no node for tests: {none}")
        build_image()
        cluster.load(IMAGE)
        made.install()
        stack.callback(made.remove)
        yield made


@pytest.fixture
def lake():
    """The folder of the example, empty, in which root writes the source and user 185 the target."""
    shutil.rmtree(LAKE, ignore_errors=True)
    LAKE.mkdir(parents=True)
    LAKE.chmod(0o777)
    yield LAKE
    shutil.rmtree(LAKE, ignore_errors=True)


class Job:
    """The Backfill of the example, through kubectl."""

    def __init__(self, node):
        self.node = node
        self.figures = {}

    def status(self):
        return (self.node.get("backfill", "orders") or {}).get("status") or {}

    def condition(self, type_):
        found = [one for one in self.status().get("conditions", ()) if one["type"] == type_]
        return (found[0]["status"], found[0]["reason"]) if found else (None, None)

    def rows_done(self):
        return (self.status().get("progress") or {}).get("rowsDone", 0)

    def patch(self, **spec):
        self.node.kubectl("patch", "backfill", "orders", "--type=merge", "-p", json.dumps({"spec": spec}))

    def acknowledged(self, what, type_, wanted, within_s=30):
        """Wait until a condition says so and every command is acknowledged; keep how long it took."""
        began = time.monotonic()
        generation = self.node.get("backfill", "orders")["metadata"]["generation"]

        def there():
            status = self.status()
            conditions = {one["type"]: one["status"] for one in status.get("conditions", ())}
            current = status.get("observedGeneration") == generation
            return current and conditions.get(type_) == wanted and conditions.get("ControlSynced") == "True"

        self.node.until(f"{what} acknowledged", there, within_s * SLOW, every_s=0.2)
        self.figures[f"{what} acknowledged s"] = round(time.monotonic() - began, 1)

    def driver(self):
        """Return the driver pod of the newest attempt."""
        pods = self.node.list("pods", "backfill.dev/role=driver")
        return max(pods, key=lambda pod: int(pod["metadata"]["labels"]["backfill.dev/attempt"]), default=None)

    def said(self, **wanted):
        """Return the newest progress that the driver printed, if it says so; else None."""
        text = self.node.kubectl("logs", "--selector=backfill.dev/role=driver", "--tail=1")
        progress = json.loads(text) if text.startswith("{") else {}
        return progress if wanted.items() <= progress.items() else None

    def executors(self):
        return self.node.list("pods", "spark-role=executor")


def sealed_at(target):
    """Return when each seal was durable, with the rows that it holds."""
    files = {seal.version: Path(target, "_delta_log", f"{seal.version:020}.json") for seal in oracle.seals(str(target))}
    return [(files[seal.version].stat().st_mtime, seal.state["rowsDone"]) for seal in oracle.seals(str(target))]


def test_a_job_from_apply_to_complete(node, lake, tmp_path, request):
    """Paused, throttled and resumed while it runs, killed once, and the target is what the source was."""
    REPORT.mkdir(parents=True, exist_ok=True)
    target = lake / "orders_copy"
    writer = Writer(lake / "orders", ROWS)
    request.addfinalizer(writer.end)
    with node.operator(tmp_path, REPORT / "operator.log") as operator:
        job = Job(node)
        node.kubectl("apply", "-f", str(EXAMPLE))

        pod = node.until("a driver pod", job.driver, 30 * SLOW)
        seen = node.until("the first rows", lambda: [at for at, rows in sealed_at(target) if rows], 120 * SLOW)
        created = seconds(pod["metadata"]["creationTimestamp"])
        job.figures["driver pod created -> fence s"] = round(sealed_at(target)[0][0] - created, 1)
        job.figures["driver pod created -> first seal s"] = round(seen[0] - created, 1)
        executors = job.executors()
        assert [one["status"]["phase"] for one in executors] == ["Running"], node.story()
        assert executors[0]["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]

        first = node.until("progress in the status", job.rows_done, 30 * SLOW)
        node.until("moving progress", lambda: job.rows_done() > first, 30 * SLOW)
        assert job.status()["phase"] == "Running"
        assert job.condition("Throttled") == ("True", "AsRequested")

        job.patch(desiredState="Paused")
        job.acknowledged("pause", "Paused", "True")
        # What was under way when the pause was acknowledged still lands, with the barrier after its end.
        quiet = node.until("a quiet driver", lambda: job.said(paused="History", quiet=True), 60 * SLOW)["epoch"]
        node.until("a barrier", lambda: job.said()["epoch"] > quiet + 1, 30 * SLOW)
        held = sealed_at(target)[-1][1]
        time.sleep(QUIET_S)
        assert sealed_at(target)[-1][1] == held, "a paused job seals no history"
        assert job.status()["phase"] == "Paused"

        job.patch(throttle={"rowsPerSecond": 8000})
        job.acknowledged("throttle", "Throttled", "True")
        job.patch(desiredState="Running")
        job.acknowledged("resume", "Paused", "False")
        node.until("rows after the pause", lambda: sealed_at(target)[-1][1] > held, 30 * SLOW)

        node.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
        died = time.time()
        node.until("the second attempt", lambda: (job.status().get("attempt") or {}).get("number") == 2, 60 * SLOW)
        attempt_2 = node.until("a second driver pod", lambda: _other(job.driver(), pod), 60 * SLOW)
        done = sealed_at(target)[-1][1]
        node.until("rows of the second attempt", lambda: sealed_at(target)[-1][1] > done, 120 * SLOW)
        job.figures["driver killed -> next seal with rows s"] = round(time.time() - died, 1)
        alive = [one for one in node.list("pods", "backfill.dev/role=driver") if one["status"]["phase"] == "Running"]
        assert [one["metadata"]["uid"] for one in alive] == [attempt_2["metadata"]["uid"]]

        job.patch(throttle={"rowsPerSecond": None})
        job.acknowledged("unthrottle", "Throttled", "False")
        node.until("Complete", lambda: job.condition("Finished")[0] == "True", 300 * SLOW)
        status = job.status()
        assert job.condition("Complete")[0] == "True", node.story()
        assert (status["phase"], status["receipt"]["mismatches"]) == ("Succeeded", 0)
        assert job.condition("Verified") == ("True", "Equal")
        assert status["attempts"] == 2
        assert operator.poll() is None
        _leaves_nothing(node, job)
    writer.end()
    job.figures["rows"] = status["receipt"]["rows"]
    job.figures["commits of the writer"] = writer.commits
    (REPORT / "smoke.json").write_text(json.dumps(job.figures, indent=2) + "\n")
    print(json.dumps(job.figures, indent=2))
    assert writer.failure is None
    view = yaml.safe_load(EXAMPLE.read_text())["spec"]["transform"]
    wanted = f"SELECT {', '.join(view['select'])} FROM source WHERE {view['where']}"
    last = oracle.seals(str(target))[-1]
    assert oracle.violations(str(lake / "orders"), str(target), last, wanted) == []
    assert last.state["snapshot"]["consumed"] == status["receipt"]["sourceVersion"]
    assert oracle.rows_in(str(target)) == status["receipt"]["rows"]


def _other(pod, than):
    return pod if pod and pod["metadata"]["uid"] != than["metadata"]["uid"] else None


def _leaves_nothing(node, job):
    """Deletion takes everything with it."""
    node.kubectl("delete", "backfill", "orders", "--wait=true", "--timeout=60s")
    kinds, mine = "pods,configmaps,secrets,services", "app.kubernetes.io/managed-by=backfill-operator"
    node.until("nothing left", lambda: not node.list(kinds, mine) and not job.executors(), 60 * SLOW)
