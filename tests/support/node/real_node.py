"""What a run on a real node needs beside the cluster: the images and the chart's installation."""

import contextlib
import json
import re
import secrets
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from urllib.parse import urlsplit

from support.cluster.charts import CHART, RELEASE, SYSTEM, as_flags
from support.cluster.harness import said, tool
from support.node.witness import Witness
from support.repository import ROOT

TRIAL = f"{RELEASE}-trial"
CLAIM = "lake"
IMAGES = {name: f"localhost/backfill-{name}:dev" for name in ("operator", "spark")}
LOOK_S = 0.5
"""At most between two looks at what no watch shows; a change of a Backfill or a pod is looked at once."""

WARNING = re.compile(r"^(?:Warning: .*|W\d{4} .* would violate PodSecurity .*)$", re.MULTILINE)
"""What an API server warns of, as kubectl and as helm tell it; helm's other warnings are about kinds, not about pods."""

EXPECTED = ("Immediate deletion does not wait for confirmation", "deleting cluster-scoped resources")
"""Warnings of what scenarios do on purpose."""

LEFT = "backfills,pods,resourcequotas"
"""Kinds of what a scenario may leave behind."""

RESTRICTED = ("pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")


class Node:
    """A cluster with kubelets and the chart installed, seen through kubectl in one of its namespaces."""

    def __init__(self, cluster, lake, **values):
        """Take the cluster, the folder of its nodes that holds the tables, and the values of the chart."""
        self.cluster = cluster
        self.namespace = f"e2e-{secrets.token_hex(3)}"
        """Where folders of the node may be mounted, so not restricted."""

        self.restricted = f"{self.namespace}-restricted"
        """Where a claim holds the lake."""

        self._kubectl, self._helm = tool("kubectl"), tool("helm")
        if not (self._kubectl and self._helm):
            raise FileNotFoundError("kubectl and helm are needed")
        self._lake, self._values = lake, values
        self._as_wanted = False
        """Is the chart installed, with these values?"""

        self._warnings = []
        self.witness = Witness([self._kubectl, f"--kubeconfig={cluster.kubeconfig}"], (self.namespace, self.restricted))

    def kubectl(self, *words, stdin=None, check=True, namespace=None):
        """Run kubectl in a namespace; return what it says."""
        command = [self._kubectl, f"--kubeconfig={self.cluster.kubeconfig}", "-n", namespace or self.namespace, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=240)
        self._note_warnings(words, done.stderr)
        assert done.returncode == 0 or not check, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def helm(self, *words):
        """Run helm in the operator's namespace; return what it says."""
        command = [self._helm, f"--kubeconfig={self.cluster.kubeconfig}", "-n", SYSTEM, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        self._note_warnings(("helm", *words), done.stderr)
        assert done.returncode == 0, f"helm {words[0]}: {done.stderr}\n{self.story(SYSTEM)}"
        return done.stdout

    def _note_warnings(self, words, said):
        found = [one for one in WARNING.findall(said) if not any(expected in one for expected in EXPECTED)]
        self._warnings += [f"{' '.join(map(str, words[:3]))}: {one}" for one in found]

    def new_warnings(self):
        """Return what the API server warned of since this was asked last: pods that a restricted namespace would not have, unknown fields."""
        found, self._warnings = self._warnings, []
        return found

    def get(self, kind, name, namespace=None):
        """Return an object, or None."""
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found", namespace=namespace)
        return json.loads(text) if text else None

    def list(self, kinds, selector="", namespace=None):
        """Return objects by label."""
        return json.loads(self.kubectl("get", kinds, "-o", "json", f"--selector={selector}", namespace=namespace))[
            "items"
        ]

    def keep_secret(self, name, values, namespace):
        """Make a Secret, or change it."""
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(secret), namespace=namespace)

    def prepare(self):
        """Make the namespaces, those of the operator and of one tenant restricted, and a claim for the lake."""
        for namespace in (self.namespace, self.restricted, SYSTEM):
            self.kubectl("create", "namespace", namespace, check=namespace != SYSTEM)
        for namespace in (self.restricted, SYSTEM):
            self.kubectl("label", "namespace", namespace, *RESTRICTED, "--overwrite")
        self._claim_the_lake()
        self.witness.start()

    def _claim_the_lake(self):
        objects = {"apiVersion": "v1", "kind": "List", "items": _claim(self.restricted, self._lake)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(objects), namespace=self.restricted)

    def make_anew(self, within_s=90):
        """Make the restricted namespace again, with its part of the chart, if it was deleted."""
        found = self.get("namespace", self.restricted)
        if found is not None and "deletionTimestamp" not in found["metadata"]:
            return
        self.release(self.restricted)
        self.until("no namespace", lambda: self.get("namespace", self.restricted) is None, within_s)
        # A volume stays bound to the claim that is gone.
        self.kubectl("delete", "persistentvolume", f"lake-{self.restricted}", "--ignore-not-found")
        self.kubectl("create", "namespace", self.restricted)
        self.kubectl("label", "namespace", self.restricted, *RESTRICTED)
        self._claim_the_lake()
        self._as_wanted = False
        self.install()

    def install(self):
        """Install the chart, unless it is: CRD, roles, accounts, policies and the operator's own pods, which are ready then."""
        if self._as_wanted:
            return
        places = {
            "watch": {"namespaces": [self.namespace, self.restricted]},
            "trial": {"namespace": self.restricted, "claim": CLAIM},
        }
        # The CRD may be there from an earlier run, and stays after this one.
        self.helm("upgrade", "--install", RELEASE, CHART, "--take-ownership", "--reset-values", "--wait", "--timeout=3m",
                  *as_flags(places | self._values))  # fmt: skip
        self._as_wanted = True

    def try_out(self):
        """Run `helm test`, which must pass; return what its pod said, and take the pod away."""
        self.helm("test", RELEASE, "--timeout=5m")
        pod = self.get("pod", TRIAL, namespace=SYSTEM)
        assert pod["status"]["phase"] == "Succeeded", pod["status"]
        said = self.kubectl("logs", TRIAL, namespace=SYSTEM)
        self.kubectl("delete", "pod", TRIAL, namespace=SYSTEM)
        return said

    def upgrade(self, **values):
        """Change values of the installation, and wait until the new operator is ready."""
        self._as_wanted = False
        self.helm("upgrade", RELEASE, CHART, "--reset-then-reuse-values", "--wait", "--timeout=3m", *as_flags(values))

    def uninstall(self):
        """Take the chart away, and wait until its pods are gone."""
        self._as_wanted = False
        self.helm("uninstall", RELEASE, "--ignore-not-found", "--wait")

    def address_of_this_machine(self):
        """Return where pods reach a server of this machine: the address by which it reaches the node."""
        [node, *_] = self.list("nodes")
        address = next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.connect((address, 9))  # sends nothing
            return asked.getsockname()[0]

    def roll_back(self):
        """Take the installation back to what it was before its last upgrade, and wait until the operator is ready."""
        self._as_wanted = False
        self.helm("rollback", RELEASE, "--wait", "--timeout=3m")

    def address_of_the_api(self):
        """Return host and port of the API server."""
        view = json.loads(self.kubectl("config", "view", "--minify", "-o", "json"))
        address = urlsplit(view["clusters"][0]["cluster"]["server"])
        return address.hostname, address.port

    def leader(self):
        """Return the name of the operator's pod that holds the Lease."""
        lease = self.get("lease", RELEASE, namespace=SYSTEM) or {}
        return lease.get("spec", {}).get("holderIdentity", "")

    def kill_operators(self, *names):
        """Have pods of the operator killed without grace."""
        self.kubectl("delete", "pod", *names, "--grace-period=0", "--force", namespace=SYSTEM)

    def operators(self):
        """Return the operator's pods."""
        return self.list("pods", f"app.kubernetes.io/instance={RELEASE}", namespace=SYSTEM)

    def operator_log(self):
        """Return what the operator said."""
        selector = f"--selector=app.kubernetes.io/instance={RELEASE}"
        return self.kubectl("logs", selector, "--tail=-1", "--prefix", namespace=SYSTEM, check=False)

    def tidy(self, within_s):
        """Have everything of tenants deleted, drivers at once; what is refused to go is what the next test would meet."""
        for namespace in (self.namespace, self.restricted):
            if not self.list(LEFT, namespace=namespace):
                continue
            self.kubectl("delete", "backfills,resourcequotas", "--all", "--wait=false", namespace=namespace)
            for role in ("driver", "executor"):
                words = ("pods", f"--selector=backfill.dev/role={role}", "--grace-period=0", "--force")
                self.kubectl("delete", *words, check=False, namespace=namespace)
            self.until(
                "nothing of the last test",
                lambda at=namespace: not self.list(LEFT, namespace=at),
                within_s,
                namespace=namespace,
            )

    def remove(self):
        """Have everything deleted, the operator first: it would put finalizers back. The rest is not waited for."""
        self.witness.stop()
        with contextlib.suppress(AssertionError):
            self.uninstall()
        for namespace in (self.namespace, self.restricted):
            self.release(namespace)
            self.kubectl("delete", "namespace", namespace, "--wait=false", check=False)
        self.kubectl("delete", "persistentvolume", f"lake-{self.restricted}", "--wait=false", check=False)

    def release(self, namespace):
        """Take the finalizers of Backfills whose operator is gone."""
        for one in self.list("backfills", namespace=namespace):
            words = ("backfill", one["metadata"]["name"], "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
            self.kubectl("patch", *words, check=False, namespace=namespace)

    def until(self, what, true, within_s, *, signs=lambda: None, namespace=None):
        """Wait until a look gives something true; return it. Fails with what the cluster says.

        Args:
            what: Is waited for, in words.
            true: The look.
            within_s: How long nothing may change: on a busy machine all takes longer, and goes on.
            signs: Returns what changes while all is well. Without it the time is a limit for the whole.
            namespace: Of which the cluster tells.
        """
        deadline, before = time.monotonic() + within_s, signs()
        while True:
            seen = true()
            if seen:
                return seen
            if time.monotonic() >= deadline:
                now = signs()
                assert now != before, f"{what} not within {within_s} s of {now}\n{self.story(namespace)}"
                deadline, before = time.monotonic() + within_s, now
            self.witness.wait(LOOK_S)

    def story(self, namespace=None):
        """Return what a reader of the report needs."""
        looks = (
            ("get", "backfills", "-o", "yaml"), ("get", "pods", "-o", "wide"), ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", "--selector=backfill.dev/role=driver", "--tail=30", "--prefix"),
            ("logs", "--selector=spark-role=executor", "--tail=30", "--prefix"),
        )  # fmt: skip
        with ThreadPoolExecutor(len(looks)) as side_by_side:
            said = side_by_side.map(lambda look: self.kubectl(*look, check=False, namespace=namespace)[-6000:], looks)
            return "\n".join(f"--- kubectl {' '.join(look)}\n{text}" for look, text in zip(looks, said, strict=True))


def _claim(namespace, folder):
    """Return a folder of the nodes as a volume, and its claim: a restricted tenant names no folder of a node."""
    name, size = f"lake-{namespace}", {"storage": "1Gi"}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    return [
        {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": common | {"capacity": size, "hostPath": {"path": str(folder)}, "persistentVolumeReclaimPolicy": "Retain"},
        },
        {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM},
            "spec": common | {"volumeName": name, "resources": {"requests": size}},
        },
    ]  # fmt: skip


def build_images(environ):
    """Build both images from this tree, by whatever builds images here."""
    said(ROOT / "build-tools" / "image_parts.sh")
    command = environ.get("IMAGE_BUILD", str(ROOT / "build-tools" / "image_build.sh"))
    for name, image in IMAGES.items():
        said(command, ".", image, "--target", name, cwd=ROOT)


def seconds(moment):
    """Return a moment of the API as seconds since 1970."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
