"""One whole run on a real node: helm, kubectl, the images of this checkout, a writer that does not stop.

    BACKFILL_TEST_CLUSTER=…/cluster make e2e-smoke

It fails where there is no node: a run that tried nothing has shown nothing.

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
from support.cluster import harness as cluster_harness
from support.cluster.charts import RELEASE
from support.cluster.real_node import IMAGES, ROOT, Node, Writer, build_images, make_orders, seconds
from support.tables import oracle

EXAMPLE = ROOT / "examples" / "orders-cluster.yaml"
LAKE = Path("/var/tmp/backfill-lake")
REPORT = ROOT / "build" / "e2e"
ROWS = int(os.environ.get("BACKFILL_E2E_ROWS", "400000"))
SLOW = float(os.environ.get("BACKFILL_E2E_SLOW", "1"))
"""On a busy machine everything takes longer; so many times."""

ARRANGED_ROWS = 160_000
"""More than a minute of reading at the limit, so that a driver can be killed in the middle of it."""

QUIET_S = 3

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def node():
    """A real node with the chart installed, ready for `kubectl apply`."""
    REPORT.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            cluster = stack.enter_context(cluster_harness.borrowed_cluster(os.environ, nodes=True))
            made = Node(cluster)
            build_images(os.environ)
            for image in IMAGES.values():
                cluster.load(image)
        except (cluster_harness.NoClusterError, cluster_harness.CommandFailedError, FileNotFoundError) as none:
            pytest.fail(f"no node for this run: {none}", pytrace=False)
        stack.callback(made.remove)
        made.install(limits={"allowedHostPaths": [str(LAKE)]})
        yield made


@pytest.fixture
def lake():
    """The folder of the example, empty, in which root writes the source and user 185 the target."""
    shutil.rmtree(LAKE, ignore_errors=True)
    LAKE.mkdir(parents=True, exist_ok=True)
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

    def signs(self, target):
        """Return how far the job is, seen from outside: it differs as long as a pod starts, a step ends, or rows are committed."""
        pods = self.node.list("pods", "backfill.dev/role=driver") + self.executors()
        progress = self.status().get("progress") or {}
        committed = [rows for _, rows in sealed_at(target)][-1:]
        return (
            sorted((one["metadata"]["name"], one["status"]["phase"]) for one in pods),
            progress.get("step"),
            committed,
        )

    def until(self, what, true, within_s, target):
        """Wait as long as the job moves: a node that is busy may take its time for each sign of it."""
        return self.node.until(what, true, within_s * SLOW, signs=lambda: self.signs(target))


def sealed_at(target):
    """Return when each seal was durable, with the rows that it holds."""
    files = {seal.version: Path(target, "_delta_log", f"{seal.version:020}.json") for seal in oracle.seals(str(target))}
    return [(files[seal.version].stat().st_mtime, seal.state["rowsDone"]) for seal in oracle.seals(str(target))]


def test_a_job_from_apply_to_complete(node, lake, request):
    """Paused, throttled and resumed while it runs, killed once, and the target is what the source was."""
    target = lake / "orders_copy"
    writer = Writer(lake / "orders", ROWS)
    request.addfinalizer(writer.end)
    job = Job(node)
    node.kubectl("apply", "-f", str(EXAMPLE))

    pod = node.until("a driver pod", job.driver, 30 * SLOW)
    seen = job.until("the first rows", lambda: [at for at, rows in sealed_at(target) if rows], 120, target)
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
    job.until("rows of the second attempt", lambda: sealed_at(target)[-1][1] > done, 120, target)
    job.figures["driver killed -> next seal with rows s"] = round(time.time() - died, 1)
    alive = [one for one in node.list("pods", "backfill.dev/role=driver") if one["status"]["phase"] == "Running"]
    assert [one["metadata"]["uid"] for one in alive] == [attempt_2["metadata"]["uid"]]

    job.patch(throttle={"rowsPerSecond": None})
    job.acknowledged("unthrottle", "Throttled", "False")
    job.until("Complete", lambda: job.condition("Finished")[0] == "True", 300, target)
    status = job.status()
    assert job.condition("Complete")[0] == "True", node.story()
    assert (status["phase"], status["receipt"]["mismatches"]) == ("Succeeded", 0)
    assert job.condition("Verified") == ("True", "Equal")
    assert status["attempts"] == 2
    (REPORT / "operator.log").write_text(node.operator_log())
    assert {restarts(one) for one in node.operators()} == {0}
    _leaves_nothing(node, job)
    writer.end()
    job.figures["rows"] = status["receipt"]["rows"]
    job.figures["commits of the writer"] = writer.commits
    (REPORT / "smoke.json").write_text(json.dumps(job.figures, indent=2) + "\n")
    print(json.dumps(job.figures, indent=2))
    assert writer.failure is None
    equals_the_source(lake, status["receipt"])


def equals_the_source(lake, receipt):
    """The target is what the example's transform makes of the source, read by delta-rs, at the version of the receipt."""
    view, target = yaml.safe_load(EXAMPLE.read_text())["spec"]["transform"], str(lake / "orders_copy")
    wanted = f"SELECT {', '.join(view['select'])} FROM source WHERE {view['where']}"
    last = oracle.seals(target)[-1]
    assert oracle.violations(str(lake / "orders"), target, last, wanted) == []
    assert last.progress["consumed"] == receipt["sourceVersion"]
    assert oracle.rows_in(target) == receipt["rows"]


def arranged():
    """Return the example with the other strategy: slow enough that the writer changes what is there while rows are still read."""
    document = yaml.safe_load(EXAMPLE.read_text())
    document["spec"] |= {"strategy": {"type": "Arrangement"}, "throttle": {"rowsPerSecond": 2000}}
    return document


def merged_while_reading(target):
    """Return the versions of the source that seals held before all rows were read, once there is more than one."""
    held = {one.progress["consumed"] for one in oracle.seals(str(target)) if one.state["rowsDone"]
            and one.progress["phase"] == "Reading"}  # fmt: skip
    return held if len(held) > 1 else None


def test_rows_that_are_there_follow_the_source(node, lake, request):
    """With Arrangement, before the last row is read; a driver is killed, and the target is what the source was."""
    target = lake / "orders_copy"
    writer = Writer(lake / "orders", ARRANGED_ROWS)
    request.addfinalizer(writer.end)
    job = Job(node)
    node.kubectl("apply", "-f", "-", stdin=json.dumps(arranged()))

    job.until("changes between two ranges", lambda: merged_while_reading(target), 120, target)
    node.until("the key", lambda: "order_id = " in (job.status().get("progress") or {}).get("position", ""), 30 * SLOW)
    pod, done = job.driver(), sealed_at(target)[-1][1]
    node.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")
    job.until("rows of the second attempt", lambda: sealed_at(target)[-1][1] > done, 120, target)
    assert oracle.seals(str(target))[-1].progress["phase"] == "Reading", "nothing was left to read after the kill"

    job.patch(throttle={"rowsPerSecond": None})
    job.until("Complete", lambda: job.condition("Finished")[0] == "True", 300, target)
    status = job.status()
    assert job.condition("Complete")[0] == "True", node.story()
    assert (status["receipt"]["mismatches"], status["attempts"]) == (0, 2)
    _leaves_nothing(node, job)
    writer.end()
    assert writer.failure is None
    equals_the_source(lake, status["receipt"])


def restarts(pod):
    """Return how often a pod of one container was restarted."""
    return pod["status"]["containerStatuses"][0]["restartCount"]


def _other(pod, than):
    return pod if pod and pod["metadata"]["uid"] != than["metadata"]["uid"] else None


def _leaves_nothing(node, job):
    """Deletion takes everything with it."""
    node.kubectl("delete", "backfill", "orders", "--wait=true", "--timeout=60s")
    kinds, mine = "pods,configmaps,secrets,services", "app.kubernetes.io/managed-by=backfill-operator"
    node.until("nothing left", lambda: not node.list(kinds, mine) and not job.executors(), 60 * SLOW)


TINY = {
    "apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "tiny"},
    "spec": {
        "source": {"type": "Delta", "delta": {"path": "/lake/tiny", "key": ["order_id"]}},
        "target": {"type": "Delta", "delta": {"path": "/lake/tiny_copy", "writeMode": "Upsert"}},
        "verify": "Final",
        # The driver does the work, so it needs no account; 10 rows need no more.
        "executor": {"instances": 0},
        "driver": {
            "resources": {"requests": {"cpu": "100m", "memory": "1536Mi"}},
            "template": {"spec": {
                "containers": [{"name": "driver", "volumeMounts": [{"name": "lake", "mountPath": "/lake"}]}],
                "volumes": [{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}],
            }},
        },
    },
}  # fmt: skip


def claim(node):
    """Give the restricted namespace the lake as a claim: a user there names no folder of the node."""
    name, size = f"lake-{node.restricted}", {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": common | {"capacity": size, "hostPath": {"path": str(LAKE)}, "persistentVolumeReclaimPolicy": "Retain"},
    }  # fmt: skip
    wanted = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "lake"},
        "spec": common | {"volumeName": name, "resources": {"requests": size}},
    }  # fmt: skip
    node.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [volume, wanted]}),
                 namespace=node.restricted)  # fmt: skip


def test_an_installation_is_upgraded_and_leaves(node, lake, request):
    """In a restricted namespace, with Roles of two namespaces: one tiny Backfill, another value, and what stays after the end."""
    make_orders(lake / "tiny", 10)
    claim(node)
    request.addfinalizer(
        lambda: node.kubectl("delete", "persistentvolume", f"lake-{node.restricted}", "--wait=false", check=False)
    )

    def tiny():
        return node.get("backfill", "tiny", namespace=node.restricted) or {}

    def holds(type_):
        return [one["status"] for one in tiny().get("status", {}).get("conditions", ()) if one["type"] == type_] == [
            "True"
        ]

    node.kubectl("apply", "-f", "-", stdin=json.dumps(TINY), namespace=node.restricted)
    node.until("Finished", lambda: holds("Finished"), 180 * SLOW)
    assert holds("Complete"), node.story(node.restricted)
    assert oracle.rows_in(str(lake / "tiny_copy")) == 10

    before = {one["metadata"]["uid"] for one in node.operators()}
    node.upgrade(operator={"settings": {"pollSeconds": 1}})
    node.until(
        "the new operators alone",
        lambda: before.isdisjoint(one["metadata"]["uid"] for one in node.operators()),
        60 * SLOW,
    )
    refused = node.kubectl("apply", "-f", "-", stdin=json.dumps(thief()), namespace=node.restricted, check=False)
    assert refused == "", "the policy of the API server holds after an upgrade"
    node.kubectl("delete", "backfill", "tiny", "--wait=true", "--timeout=60s", namespace=node.restricted)
    node.kubectl("apply", "-f", "-", stdin=json.dumps(stays()), namespace=node.restricted)

    node.helm("uninstall", RELEASE, "--wait")
    node.until("the operator gone", lambda: node.operators() == [], 60 * SLOW)
    assert [one["metadata"]["name"] for one in node.list("backfills", namespace=node.restricted)] == ["stays"]
    kinds = (
        "roles,rolebindings,networkpolicies,resourcequotas,validatingadmissionpolicies,clusterroles,clusterrolebindings"
    )
    assert node.list(kinds, f"app.kubernetes.io/instance={RELEASE}", namespace=node.restricted) == []


def stays():
    """Return a Backfill without a driver: it outlives the installation."""
    return TINY | {"metadata": {"name": "stays"}, "spec": TINY["spec"] | {"suspend": True}}


def thief():
    """Return a Backfill that asks for another image."""
    return TINY | {"metadata": {"name": "thief"}, "spec": TINY["spec"] | {"spark": {"image": "localhost/thief:1"}}}
