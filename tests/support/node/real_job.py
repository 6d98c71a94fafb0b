"""One Backfill on a real node: its commands, its outcome, and the comparison of its target with its source."""

import json
import os
import shutil
import time
import uuid
from pathlib import Path

import yaml
from support.repository import ROOT
from support.simulation.model import model_of
from support.tables import oracle

LAKE = Path("/var/tmp/backfill-lake")
"""The lake is a folder of this machine that the node also sees: so any engine can read the tables that the pods wrote."""

MOUNT = "/lake"
SLOW = float(os.environ.get("BACKFILL_E2E_SLOW", "1"))
"""Factor by which everything takes longer on a busy machine."""

MEMORY = {"driver": "1536Mi", "executor": "1280Mi"}
GONE_S = 90


def empty_lake():
    """Empty the lake, and return it: root writes the sources, and user 185 the targets."""
    for entry in list(LAKE.iterdir()):
        # A driver of a failed scenario may still write: it loses its table, and this scenario does not fail for it.
        aside = entry.rename(entry.with_name(f".gone-{uuid.uuid4().hex}"))
        shutil.rmtree(aside, ignore_errors=True)
    LAKE.chmod(0o777)
    return LAKE


def example(file):
    """Return a document of the examples."""
    return yaml.safe_load((ROOT / "examples" / file).read_text())


def document(name, *, instances=0, source="orders", target="", **spec):
    """Return a Backfill between two tables of the lake, whose pods mount the lake by a claim."""
    table = {"path": f"{MOUNT}/{source}", "key": ["order_id"]}
    whole = {
        "source": {"type": "Delta", "delta": table},
        "target": {"type": "Delta", "delta": {"path": f"{MOUNT}/{target or name}", "writeMode": "Upsert"}},
        "strategy": {"type": "Snapshot", "snapshot": {"splitTargetSeconds": 2}},
        "backoff": {"initialSeconds": 1, "maxSeconds": 5},
        "verify": "Final",
    }
    return for_pods(named(name, whole | spec), instances=instances)


def named(name, spec):
    """Return a Backfill of this name."""
    return {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": name}, "spec": spec}


def for_pods(backfill, *, instances=0, lake=MOUNT):
    """Return a document for a local run as one for pods: the lake is a claim, and the driver runs with or without executors."""
    spec = json.loads(json.dumps(backfill["spec"]).replace('"./lake/', f'"{lake}/'))
    pods = ["driver", *(["executor"] if instances else [])]
    made = {
        role: {"resources": {"requests": {"cpu": "100m", "memory": MEMORY[role]}}, "template": _template(role)}
        for role in pods
    }
    executor = made.get("executor", {}) | {"instances": instances}
    return backfill | {"spec": spec | {"driver": made["driver"], "executor": executor}}


def _template(role):
    return {"spec": {
        "containers": [{"name": role, "volumeMounts": [{"name": "lake", "mountPath": MOUNT}]}],
        "volumes": [{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}],
    }}  # fmt: skip


def committed_at(target):
    """Return the time at which each commit of the job was durable, with its rows."""
    return [(_durable_at(target, seal), seal.state["rowsDone"]) for seal in oracle.seals(str(target))]


def _durable_at(target, commit):
    return Path(target, "_delta_log", f"{commit.version:020}.json").stat().st_mtime


class Job:
    """A Backfill in a namespace of the node, from its application to its end."""

    def __init__(self, node, backfill, *, namespace=None):
        """Take the document; nothing is applied yet."""
        self.node, self.backfill = node, backfill
        self.name = backfill["metadata"]["name"]
        self.namespace = namespace or node.restricted
        self.figures = {}

    def host(self, end):
        """Return the folder of this machine that is the source or the target."""
        return LAKE / Path(self.backfill["spec"][end]["delta"]["path"]).relative_to(MOUNT)

    @property
    def target(self):
        """The folder of the target."""
        return self.host("target")

    # ------------------------------------------------------------ commands
    def kubectl(self, *arguments, **more):
        """Run kubectl in the namespace."""
        return self.node.kubectl(*arguments, namespace=self.namespace, **more)

    def apply(self):
        """Apply the document; return the job."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(self.backfill))
        return self

    def patch(self, **spec):
        """Change the spec; return its generation."""
        arguments = ("patch", "backfill", self.name, "--type=merge", "-o", "json", "-p", json.dumps({"spec": spec}))
        return json.loads(self.kubectl(*arguments))["metadata"]["generation"]

    def commanded(self, what, *, within_s=30, also=lambda: True, **spec):
        """Change the spec; return the seconds until a status confirms that the driver obeys."""
        began, generation = time.time(), self.patch(**spec)

        def confirmed():
            status = self.status()
            control = status.get("control") or {}
            synced = not control.get("pending") and self.condition("ControlSynced") == ("True", "Acknowledged")
            return status.get("observedGeneration") == generation and synced and self.is_as_desired() and also()

        self.node.until(f"{what} acknowledged", confirmed, within_s * SLOW)
        took = self.node.witness.past(self.namespace, self.name)[-1]["seenAt"] - began
        self.figures.setdefault("acknowledged s", []).append(round(took, 2))
        return took

    def delete(self, *flags):
        """Delete the Backfill, and wait until its pods and objects are gone too."""
        delete_all([self], *flags)

    # ------------------------------------------------------------ current state
    def seen(self):
        """Return the current object; `None` if it does not exist."""
        return self.node.witness.backfill(self.namespace, self.name)

    def status(self):
        """Return its status."""
        return (self.seen() or {}).get("status") or {}

    def condition(self, type_):
        """Return status and reason of a condition."""
        return _condition(self.status(), type_)

    def message(self, type_):
        """Return the message of a condition."""
        return next(
            (
                condition.get("message", "")
                for condition in self.status().get("conditions", ())
                if condition["type"] == type_
            ),
            "",
        )

    def is_as_desired(self):
        """Return whether pause and limit are in force as the spec requests."""
        spec = self.seen()["spec"]
        paused, limited = (
            spec.get("desiredState") == "Paused",
            (spec.get("throttle") or {}).get("rowsPerSecond") is not None,
        )
        return (self.condition("Paused")[0], self.condition("Throttled")[0]) == (str(paused), str(limited))

    def rows_done(self):
        """Return the rows that the status reports as done."""
        return (self.status().get("progress") or {}).get("rowsDone", 0)

    def drivers(self):
        """Return the driver pods that may have a process."""
        pods = self.node.witness.pods(self.namespace, self.name, "driver")
        return [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]

    def driver(self):
        """Return the only driver pod; `None` if there is none."""
        pods = self.drivers()
        assert len(pods) <= 1, f"two drivers: {[pod['metadata']['name'] for pod in pods]}"
        return pods[0] if pods else None

    def executors(self):
        """Return the executor pods that run."""
        pods = self.node.witness.pods(self.namespace, self.name, "executor")
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    def said(self, **fields):
        """Return the newest progress that the driver printed, if it has these fields; else `None`."""
        text = self.kubectl(
            "logs", f"--selector=backfill.dev/role=driver,backfill.dev/backfill={self.name}", "--tail=1", check=False
        )
        progress = json.loads(text) if text.startswith("{") else {}
        return progress if fields.items() <= progress.items() else None

    def kill_pod(self, pod):
        """Kill a pod without grace, as a lost node does."""
        self.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")

    # ------------------------------------------------------------ past states
    def signs(self):
        """Return the progress of the job, seen from outside: it differs as long as a pod starts, a step ends, or rows are committed."""
        pods = [
            pod for role in ("driver", "executor") for pod in self.node.witness.pods(self.namespace, self.name, role)
        ]
        progress = self.status().get("progress") or {}
        phases = sorted((pod["metadata"]["name"], pod["status"].get("phase")) for pod in pods)
        return phases, progress.get("step"), committed_at(self.target)[-1:]

    def until(self, what, true, within_s=90):
        """Wait as long as the job moves: a busy node may be slow with each sign of it."""
        return self.node.until(what, true, within_s * SLOW, signs=self.signs, namespace=self.namespace)

    def rows(self):
        """Return the rows of the newest commit; 0 if there is none."""
        return next((rows for _, rows in reversed(committed_at(self.target))), 0)

    def until_rows(self, above=0):
        """Wait for a commit with more rows; return when it was durable, in seconds since 1970."""
        self.until(f"more than {above} rows", lambda: self.rows() > above)
        return next(at for at, rows in committed_at(self.target) if rows > above)

    def outlives(self, kill, *, far=lambda state: state["rowsDone"]):
        """Kill the driver; return the seconds until the next attempt had committed more than the previous one."""
        return self.ended_by(kill, far=far)()

    def ended_by(self, kill, *, far=lambda state: state["rowsDone"]):
        """Kill the driver; return a function that waits for the next attempt, and returns the result of `outlives`.

        A pod that is deleted without grace is gone before its process is, which may commit once more.
        """
        ended = oracle.seals(str(self.target))[-1].state["attempt"]
        kill(self.driver())
        began = time.time()

        def more():
            seals = oracle.seals(str(self.target))
            before = max(far(seal.state) for seal in seals if seal.state["attempt"] <= ended)
            return next((seal for seal in seals if seal.state["attempt"] > ended and far(seal.state) > before), None)

        return lambda: round(_durable_at(self.target, self.until("commits of the next attempt", more)) - began, 1)

    def until_phase(self, *phases, within_s=90):
        """Wait for one of the phases."""
        self.until(f"phase {' or '.join(phases)}", lambda: self.status().get("phase") in phases, within_s)

    def until_complete(self, *, attempts=None, failures=None):
        """Wait for the end, which must be a success; return the status."""
        self.until("the end", lambda: self.condition("Finished")[0] == "True")
        status, story = self.status(), lambda: self.node.story(self.namespace)
        assert (status["phase"], self.condition("Complete")) == ("Succeeded", ("True", "Complete")), story()
        assert self.condition("Ready") == ("True", "Complete")
        assert attempts in (None, status["attempts"]), story()
        assert failures in (None, status.get("failures", 0)), story()
        assert self.backfill["spec"].get("verify") != "Final" or self.condition("Verified") == ("True", "Equal")
        return status

    def history(self, type_=None):
        """Return the successive phases, or status and reason of a condition, without repetitions."""
        past = [backfill.get("status") or {} for backfill in self.node.witness.past(self.namespace, self.name)]
        values = [status.get("phase") if type_ is None else _condition(status, type_) for status in past]
        return [
            value
            for before, value in zip([None, *values], values, strict=False)
            if value != before and value is not None
        ]

    def passed(self, *phases):
        """Assert that the Backfill was in these phases, in this order, with any others between them."""
        seen = self.history()
        history = iter(seen)
        assert all(phase in history for phase in phases), seen
        return True

    def events(self):
        """Return the reasons of its events."""
        events = json.loads(self.kubectl("get", "events", "-o", "json"))["items"]
        return {event["reason"] for event in events if event["involvedObject"]["name"] == self.name}

    def equals_the_source(self):
        """Assert that the target equals the transformed source, at the version of the receipt, as read by delta-rs."""
        transform = self.backfill["spec"].get("transform") or {}
        query = f"SELECT {', '.join(transform.get('select', '*'))} FROM source WHERE {transform.get('where', 'TRUE')}"
        last = oracle.seals(str(self.target))[-1]
        assert oracle.violations(str(self.host("source")), str(self.target), last, query) == []
        receipt = self.status().get("receipt")
        if receipt:
            assert receipt["mismatches"] == 0
            assert oracle.rows_in(str(self.target)) == receipt["rows"]
            assert model_of(last.state["strategy"]).compared(last.progress).version == receipt["sourceVersion"]


def apply_all(jobs):
    """Apply the documents of jobs of one namespace in one command."""
    objects = {"apiVersion": "v1", "kind": "List", "items": [job.backfill for job in jobs]}
    jobs[0].kubectl("apply", "-f", "-", stdin=json.dumps(objects))


def delete_all(jobs, *flags):
    """Delete Backfills of one namespace, and wait until their pods and objects are gone too."""
    first, names = jobs[0], [job.name for job in jobs]
    first.kubectl("delete", "backfill", *names, *flags)
    kinds, selector = "pods,configmaps,secrets,services", f"backfill.dev/backfill in ({','.join(names)})"
    are_gone = lambda: not first.node.list(kinds, selector, namespace=first.namespace)  # noqa: E731
    first.node.until("nothing left", are_gone, GONE_S * SLOW, namespace=first.namespace)


def _condition(status, type_):
    matching = [condition for condition in status.get("conditions", ()) if condition["type"] == type_]
    return (matching[0]["status"], matching[0]["reason"]) if matching else (None, None)
