"""The parts of a run on a real node besides the cluster: the images and the chart's installation."""

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
from support.cluster.harness import CRD, said, tool
from support.node.witness import Witness
from support.repository import ROOT

TRIAL = f"{RELEASE}-trial"
CLAIM = "lake"
IMAGES = {name: f"localhost/backfill-{name}:dev" for name in ("operator", "spark")}
HIVE_IMAGE = "localhost/backfill-hive:dev"
"""The image of drivers with the classes of Hive, which ours lacks."""

LOOK_S = 0.5
"""Longest pause between two polls of state that no watch covers; a change of a Backfill or a pod triggers a poll at once."""

WARNING = re.compile(r"^(?:Warning: .*|W\d{4} .* would violate PodSecurity .*)$", re.MULTILINE)
"""Warnings of an API server, as kubectl and as helm print them; helm's other warnings concern kinds, not pods."""

EXPECTED = ("Immediate deletion does not wait for confirmation", "deleting cluster-scoped resources")
"""Warnings that scenarios provoke on purpose."""

LEFT = "backfills,pods,resourcequotas"
"""Kinds that a scenario may leave behind."""

RESTRICTED = ("pod-security.kubernetes.io/enforce=restricted", "pod-security.kubernetes.io/warn=restricted")


class Node:
    """A cluster with kubelets and the chart installed, seen through kubectl in one of its namespaces."""

    def __init__(self, cluster, lake, chart=(CHART,), **values):
        """Take the cluster, the folder of its nodes that holds the tables, helm's arguments for the chart, and its values."""
        self.cluster, self._chart = cluster, chart
        self.namespace = f"e2e-{secrets.token_hex(3)}"
        """A namespace whose pods may mount folders of the node, so it is not restricted."""

        self.restricted = f"{self.namespace}-restricted"
        """A restricted namespace with a claim for the lake."""

        self._kubectl, self._helm = tool("kubectl"), tool("helm")
        if not (self._kubectl and self._helm):
            raise FileNotFoundError("kubectl and helm are needed")
        self._lake, self._values = lake, values
        self._as_wanted = False
        """True if the chart is installed with these values."""

        self._warnings = []
        self.witness = Witness([self._kubectl, f"--kubeconfig={cluster.kubeconfig}"], (self.namespace, self.restricted))

    def kubectl(self, *arguments, stdin=None, check=True, namespace=None):
        """Run kubectl in a namespace; return its output."""
        command = [
            self._kubectl,
            f"--kubeconfig={self.cluster.kubeconfig}",
            "-n",
            namespace or self.namespace,
            *arguments,
        ]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=240)
        self._note_warnings(arguments, done.stderr)
        assert done.returncode == 0 or not check, f"kubectl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def helm(self, *arguments):
        """Run helm in the operator's namespace; return its output."""
        command = [self._helm, f"--kubeconfig={self.cluster.kubeconfig}", "-n", SYSTEM, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        self._note_warnings(("helm", *arguments), done.stderr)
        assert done.returncode == 0, f"helm {arguments[0]}: {done.stderr}\n{self.story(SYSTEM)}"
        return done.stdout

    def _note_warnings(self, arguments, output):
        unexpected = [
            warning for warning in WARNING.findall(output) if not any(expected in warning for expected in EXPECTED)
        ]
        self._warnings += [f"{' '.join(map(str, arguments[:3]))}: {warning}" for warning in unexpected]

    def new_warnings(self):
        """Return the API server's warnings since the last call: pods that a restricted namespace would reject, unknown fields."""
        warnings, self._warnings = self._warnings, []
        return warnings

    def get(self, kind, name, namespace=None):
        """Return an object, or `None`."""
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found", namespace=namespace)
        return json.loads(text) if text else None

    def list(self, kinds, selector="", namespace=None):
        """Return objects by label."""
        return json.loads(self.kubectl("get", kinds, "-o", "json", f"--selector={selector}", namespace=namespace))[
            "items"
        ]

    def keep_secret(self, name, values, namespace, type_="Opaque"):
        """Create or change a Secret."""
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": type_, "stringData": values}
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
        namespace = self.get("namespace", self.restricted)
        if namespace is not None and "deletionTimestamp" not in namespace["metadata"]:
            return
        self.release(self.restricted)
        self.until("no namespace", lambda: self.get("namespace", self.restricted) is None, within_s)
        # A volume stays bound to the deleted claim.
        self.kubectl("delete", "persistentvolume", f"lake-{self.restricted}", "--ignore-not-found")
        self.kubectl("create", "namespace", self.restricted)
        self.kubectl("label", "namespace", self.restricted, *RESTRICTED)
        self._claim_the_lake()
        self._as_wanted = False
        self.install()

    def install(self):
        """Install the chart unless it is installed: CRD, roles, accounts, policies and the operator's pods, which are ready then."""
        if self._as_wanted:
            return
        self._install(*self._chart)
        self._as_wanted = True

    def _install(self, *chart, **values):
        places = {
            "watch": {"namespaces": [self.namespace, self.restricted]},
            "trial": {"namespace": self.restricted, "claim": CLAIM},
        }
        # The CRD may exist from an earlier run, and stays after this one.
        self.helm("upgrade", "--install", RELEASE, *chart, "--take-ownership", "--reset-values", "--wait", "--timeout=3m",
                  *as_flags(places | self._values | values))  # fmt: skip

    def install_other(self, chart, **values):
        """Replace the installation by one of another chart, whose CRD is the only one."""
        self.uninstall()
        self.kubectl("delete", "customresourcedefinition", CRD, "--ignore-not-found", "--timeout=60s")
        self._install(chart, **values)

    def crd(self):
        """Return the installed CRD."""
        return self.get("customresourcedefinition", CRD)

    def try_out(self):
        """Run `helm test`, which must pass; return the log of its pod, and delete the pod."""
        self.helm("test", RELEASE, "--timeout=5m")
        pod = self.get("pod", TRIAL, namespace=SYSTEM)
        assert pod["status"]["phase"] == "Succeeded", pod["status"]
        log = self.kubectl("logs", TRIAL, namespace=SYSTEM)
        self.kubectl("delete", "pod", TRIAL, namespace=SYSTEM)
        return log

    def upgrade(self, **values):
        """Change values of the installation, and wait until the new operator is ready."""
        self._as_wanted = False
        self.helm(
            "upgrade", RELEASE, *self._chart, "--reset-then-reuse-values", "--wait", "--timeout=3m", *as_flags(values)
        )

    def uninstall(self):
        """Uninstall the chart, and wait until its pods are gone."""
        self._as_wanted = False
        self.helm("uninstall", RELEASE, "--ignore-not-found", "--wait")

    def address_of_this_machine(self):
        """Return the address of this machine for pods: the one by which it reaches the node."""
        [node, *_] = self.list("nodes")
        address = next(
            address_["address"] for address_ in node["status"]["addresses"] if address_["type"] == "InternalIP"
        )
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # sends nothing
            return probe.getsockname()[0]

    def roll_back(self):
        """Roll the installation back to the revision before its last upgrade, and wait until the operator is ready."""
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
        """Kill pods of the operator without grace."""
        self.kubectl("delete", "pod", *names, "--grace-period=0", "--force", namespace=SYSTEM)

    def operators(self):
        """Return the operator's pods."""
        return self.list("pods", f"app.kubernetes.io/instance={RELEASE}", namespace=SYSTEM)

    def operator_log(self):
        """Return the log of the operator."""
        selector = f"--selector=app.kubernetes.io/instance={RELEASE}"
        return self.kubectl("logs", selector, "--tail=-1", "--prefix", namespace=SYSTEM, check=False)

    def tidy(self, within_s):
        """Delete all objects of tenants, drivers at once; an object that stays would disturb the next test."""
        for namespace in (self.namespace, self.restricted):
            if not self.list(LEFT, namespace=namespace):
                continue
            self.kubectl("delete", "backfills,resourcequotas", "--all", "--wait=false", namespace=namespace)
            for role in ("driver", "executor"):
                arguments = ("pods", f"--selector=backfill.dev/role={role}", "--grace-period=0", "--force")
                self.kubectl("delete", *arguments, check=False, namespace=namespace)
            self.until(
                "nothing of the last test",
                lambda at=namespace: not self.list(LEFT, namespace=at),
                within_s,
                namespace=namespace,
            )

    def remove(self):
        """Delete everything, the operator first, because it would add finalizers again. Only the uninstall is waited for."""
        self.witness.stop()
        with contextlib.suppress(AssertionError):
            self.uninstall()
        for namespace in (self.namespace, self.restricted):
            self.release(namespace)
            self.kubectl("delete", "namespace", namespace, "--wait=false", check=False)
        self.kubectl("delete", "persistentvolume", f"lake-{self.restricted}", "--wait=false", check=False)

    def release(self, namespace):
        """Remove the finalizers of Backfills whose operator is gone."""
        for backfill in self.list("backfills", namespace=namespace):
            arguments = (
                "backfill",
                backfill["metadata"]["name"],
                "--type=merge",
                "-p",
                '{"metadata":{"finalizers":null}}',
            )
            self.kubectl("patch", *arguments, check=False, namespace=namespace)

    def until(self, what, true, within_s, *, signs=lambda: None, namespace=None):
        """Poll until `true` returns something true; return that. A failure includes the state of the cluster.

        Args:
            what: Name of the awaited state, for the message.
            true: Function to poll.
            within_s: Longest time without a change of `signs`: on a busy machine everything takes longer.
            signs: Returns values that change while all is well. Without it the time limits the whole wait.
            namespace: Namespace that the failure describes.
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
        """Return objects, events and logs for a reader of the report."""
        commands = (
            ("get", "backfills", "-o", "yaml"), ("get", "pods", "-o", "wide"), ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", "--selector=backfill.dev/role=driver", "--tail=30", "--prefix"),
            ("logs", "--selector=spark-role=executor", "--tail=30", "--prefix"),
        )  # fmt: skip
        with ThreadPoolExecutor(len(commands)) as side_by_side:
            outputs = side_by_side.map(
                lambda command: self.kubectl(*command, check=False, namespace=namespace)[-6000:], commands
            )
            return "\n".join(
                f"--- kubectl {' '.join(command)}\n{text}" for command, text in zip(commands, outputs, strict=True)
            )


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


def build_images(environ, tree=ROOT, images=IMAGES):
    """Build both images from this or another tree, with the image builder of this machine."""
    said(tree / "build-tools" / "image_parts.sh")
    for name, image in images.items():
        said(_builder(environ), ".", image, "--target", name, cwd=tree)


def build_own_image(folder, image, environ):
    """Build the image of a folder's Dockerfile."""
    said(_builder(environ), ".", image, cwd=folder)


def _builder(environ):
    return environ.get("IMAGE_BUILD", str(ROOT / "build-tools" / "image_build.sh"))


def seconds(timestamp):
    """Return a timestamp of the API as seconds since 1970."""
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()
