"""One Backfill on a real node: what is asked of it, what became of it, and whether its target is what its source was."""

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
"""The lake is a folder of this machine that the node sees, too: so any engine can read what the pods wrote."""

MOUNT = "/lake"
SLOW = float(os.environ.get("BACKFILL_E2E_SLOW", "1"))
"""On a busy machine everything takes longer; so many times."""

MEMORY = {"driver": "1536Mi", "executor": "1280Mi"}
GONE_S = 90


def empty_lake():
    """Empty the lake, and return it: root writes the sources, and user 185 the targets."""
    for one in list(LAKE.iterdir()):
        # A driver of a scenario that failed may still write: it loses its table, and this one does not fail for it.
        aside = one.rename(one.with_name(f".gone-{uuid.uuid4().hex}"))
        shutil.rmtree(aside, ignore_errors=True)
    LAKE.chmod(0o777)
    return LAKE


def example(file):
    """Return a document of the examples."""
    return yaml.safe_load((ROOT / "examples" / file).read_text())


def document(name, *, instances=0, source="orders", target="", **spec):
    """Return a Backfill of a table of the lake into another one, whose pods find the lake by a claim."""
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
    """Return a document for a local run as one for pods: the lake is a claim, and the driver works alone or has executors."""
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
    """Return when each commit of the job was durable, with its rows."""
    return [(_durable_at(target, one), one.state["rowsDone"]) for one in oracle.seals(str(target))]


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

    # ------------------------------------------------------------ what is asked
    def kubectl(self, *words, **more):
        """Run kubectl in the namespace."""
        return self.node.kubectl(*words, namespace=self.namespace, **more)

    def apply(self):
        """Apply the document; return the job."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(self.backfill))
        return self

    def patch(self, **spec):
        """Change the spec; return its generation."""
        words = ("patch", "backfill", self.name, "--type=merge", "-o", "json", "-p", json.dumps({"spec": spec}))
        return json.loads(self.kubectl(*words))["metadata"]["generation"]

    def commanded(self, what, *, within_s=30, also=lambda: True, **spec):
        """Change the spec, and return after how many seconds a status says that the driver does it."""
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

    def delete(self, *words):
        """Delete the Backfill, and wait until its pods and objects are gone too."""
        delete_all([self], *words)

    # ------------------------------------------------------------ what is there
    def seen(self):
        """Return the object as it is; None: there is none."""
        return self.node.witness.backfill(self.namespace, self.name)

    def status(self):
        """Return its status."""
        return (self.seen() or {}).get("status") or {}

    def condition(self, type_):
        """Return status and reason of a condition."""
        return _condition(self.status(), type_)

    def message(self, type_):
        """Return the message of a condition."""
        return next((one.get("message", "") for one in self.status().get("conditions", ()) if one["type"] == type_), "")

    def is_as_desired(self):
        """Are pause and limit in force as the spec wants them?"""
        spec = self.seen()["spec"]
        paused, limited = (
            spec.get("desiredState") == "Paused",
            (spec.get("throttle") or {}).get("rowsPerSecond") is not None,
        )
        return (self.condition("Paused")[0], self.condition("Throttled")[0]) == (str(paused), str(limited))

    def rows_done(self):
        """Return the rows that the status says are done."""
        return (self.status().get("progress") or {}).get("rowsDone", 0)

    def drivers(self):
        """Return the driver pods that may have a process."""
        found = self.node.witness.pods(self.namespace, self.name, "driver")
        return [one for one in found if one["status"].get("phase") in ("Pending", "Running")]

    def driver(self):
        """Return the one driver pod; None: there is none."""
        found = self.drivers()
        assert len(found) <= 1, f"two drivers: {[one['metadata']['name'] for one in found]}"
        return found[0] if found else None

    def executors(self):
        """Return the executor pods that run."""
        found = self.node.witness.pods(self.namespace, self.name, "executor")
        return [one for one in found if one["status"].get("phase") == "Running"]

    def said(self, **wanted):
        """Return the newest progress that the driver printed, if it says so; else None."""
        text = self.kubectl(
            "logs", f"--selector=backfill.dev/role=driver,backfill.dev/backfill={self.name}", "--tail=1", check=False
        )
        progress = json.loads(text) if text.startswith("{") else {}
        return progress if wanted.items() <= progress.items() else None

    def kill_pod(self, pod):
        """Have a pod killed without grace, as a lost node does."""
        self.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force")

    # ------------------------------------------------------------ what became of it
    def signs(self):
        """Return how far the job is, seen from outside: it differs as long as a pod starts, a step ends, or rows are committed."""
        pods = [
            one for role in ("driver", "executor") for one in self.node.witness.pods(self.namespace, self.name, role)
        ]
        progress = self.status().get("progress") or {}
        phases = sorted((one["metadata"]["name"], one["status"].get("phase")) for one in pods)
        return phases, progress.get("step"), committed_at(self.target)[-1:]

    def until(self, what, true, within_s=90):
        """Wait as long as the job moves: a node that is busy may take its time for each sign of it."""
        return self.node.until(what, true, within_s * SLOW, signs=self.signs, namespace=self.namespace)

    def rows(self):
        """Return the rows of the newest commit; 0 where there is none."""
        return next((rows for _, rows in reversed(committed_at(self.target))), 0)

    def until_rows(self, above=0):
        """Wait for a commit with more rows; return when it was durable, in seconds since 1970."""
        self.until(f"more than {above} rows", lambda: self.rows() > above)
        return next(at for at, rows in committed_at(self.target) if rows > above)

    def outlives(self, kill, *, far=lambda state: state["rowsDone"]):
        """Have the driver ended; return after how many seconds the next attempt had committed more than the one before it."""
        return self.ended_by(kill, far=far)()

    def ended_by(self, kill, *, far=lambda state: state["rowsDone"]):
        """Have the driver ended; return what waits for the next attempt, and returns what `outlives` does.

        A pod that is deleted without grace is gone before its process is, which may commit once more.
        """
        ended = oracle.seals(str(self.target))[-1].state["attempt"]
        kill(self.driver())
        began = time.time()

        def more():
            found = oracle.seals(str(self.target))
            before = max(far(one.state) for one in found if one.state["attempt"] <= ended)
            return next((one for one in found if one.state["attempt"] > ended and far(one.state) > before), None)

        return lambda: round(_durable_at(self.target, self.until("commits of the next attempt", more)) - began, 1)

    def until_phase(self, *phases, within_s=90):
        """Wait for one of the phases."""
        self.until(f"phase {' or '.join(phases)}", lambda: self.status().get("phase") in phases, within_s)

    def until_complete(self, *, attempts=None, failures=None):
        """Wait for the end, which must be a good one; return the status."""
        self.until("the end", lambda: self.condition("Finished")[0] == "True")
        status, said = self.status(), lambda: self.node.story(self.namespace)
        assert (status["phase"], self.condition("Complete")) == ("Succeeded", ("True", "Complete")), said()
        assert self.condition("Ready") == ("True", "Complete")
        assert attempts in (None, status["attempts"]), said()
        assert failures in (None, status.get("failures", 0)), said()
        assert self.backfill["spec"].get("verify") != "Final" or self.condition("Verified") == ("True", "Equal")
        return status

    def history(self, type_=None):
        """Return what its phase was, or status and reason of a condition, one after the other, each once."""
        past = [one.get("status") or {} for one in self.node.witness.past(self.namespace, self.name)]
        told = [one.get("phase") if type_ is None else _condition(one, type_) for one in past]
        return [one for before, one in zip([None, *told], told, strict=False) if one != before and one is not None]

    def passed(self, *phases):
        """Was it in these phases, in this order, with any others between them? It fails with those in which it was."""
        told = self.history()
        history = iter(told)
        assert all(phase in history for phase in phases), told
        return True

    def events(self):
        """Return the reasons of its events."""
        found = json.loads(self.kubectl("get", "events", "-o", "json"))["items"]
        return {one["reason"] for one in found if one["involvedObject"]["name"] == self.name}

    def equals_the_source(self):
        """Is the target what the transform makes of the source, at the version of the receipt? Read by delta-rs."""
        transform = self.backfill["spec"].get("transform") or {}
        wanted = f"SELECT {', '.join(transform.get('select', '*'))} FROM source WHERE {transform.get('where', 'TRUE')}"
        last = oracle.seals(str(self.target))[-1]
        assert oracle.violations(str(self.host("source")), str(self.target), last, wanted) == []
        receipt = self.status().get("receipt")
        if receipt:
            assert receipt["mismatches"] == 0
            assert oracle.rows_in(str(self.target)) == receipt["rows"]
            assert model_of(last.state["strategy"]).compared(last.progress).version == receipt["sourceVersion"]


def apply_all(jobs):
    """Apply the documents of jobs of one namespace in one command."""
    objects = {"apiVersion": "v1", "kind": "List", "items": [one.backfill for one in jobs]}
    jobs[0].kubectl("apply", "-f", "-", stdin=json.dumps(objects))


def delete_all(jobs, *words):
    """Delete Backfills of one namespace, and wait until their pods and objects are gone too."""
    first, names = jobs[0], [one.name for one in jobs]
    first.kubectl("delete", "backfill", *names, *words)
    kinds, theirs = "pods,configmaps,secrets,services", f"backfill.dev/backfill in ({','.join(names)})"
    look = lambda: not first.node.list(kinds, theirs, namespace=first.namespace)  # noqa: E731
    first.node.until("nothing left", look, GONE_S * SLOW, namespace=first.namespace)


def _condition(status, type_):
    found = [one for one in status.get("conditions", ()) if one["type"] == type_]
    return (found[0]["status"], found[0]["reason"]) if found else (None, None)
