"""What a run on a real node needs beside the cluster: the images, the chart's installation and a live writer."""

import contextlib
import json
import random
import secrets
import subprocess
import threading
import time
from datetime import datetime

from deltalake import DeltaTable
from support.cluster.charts import CHART, RELEASE, SYSTEM, as_flags
from support.cluster.harness import said, tool
from support.repository import ROOT
from support.tables.other_engine import append

IMAGES = {name: f"localhost/backfill-{name}:dev" for name in ("operator", "spark")}


class Node:
    """A cluster with kubelets and the chart installed, seen through kubectl in one of its namespaces."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.namespace = f"e2e-{secrets.token_hex(3)}"
        """Where folders of the node may be mounted, so not restricted."""

        self.restricted = f"{self.namespace}-restricted"
        self._kubectl, self._helm = tool("kubectl"), tool("helm")
        if not (self._kubectl and self._helm):
            raise FileNotFoundError("kubectl and helm are needed")

    def kubectl(self, *words, stdin=None, check=True, namespace=None):
        """Run kubectl in a namespace; return what it says."""
        command = [self._kubectl, f"--kubeconfig={self.cluster.kubeconfig}", "-n", namespace or self.namespace, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0 or not check, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def helm(self, *words):
        """Run helm in the operator's namespace; return what it says."""
        command = [self._helm, f"--kubeconfig={self.cluster.kubeconfig}", "-n", SYSTEM, *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, f"helm {words[0]}: {done.stderr}\n{self.story(SYSTEM)}"
        return done.stdout

    def get(self, kind, name, namespace=None):
        """Return an object, or None."""
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found", namespace=namespace)
        return json.loads(text) if text else None

    def list(self, kinds, selector="", namespace=None):
        """Return objects by label."""
        return json.loads(self.kubectl("get", kinds, "-o", "json", f"--selector={selector}", namespace=namespace))[
            "items"
        ]

    def install(self, **values):
        """Make two namespaces, and install the chart for them: CRD, roles, accounts, policies and the operator's own pod."""
        self.kubectl("create", "namespace", self.namespace)
        self.kubectl("create", "namespace", self.restricted)
        self.kubectl("label", "namespace", self.restricted, "pod-security.kubernetes.io/enforce=restricted")
        watch = {"namespaces": [self.namespace, self.restricted]}
        # The CRD may be there from an earlier run, and stays after this one.
        self.helm("upgrade", "--install", RELEASE, CHART, "--create-namespace", "--take-ownership", "--wait", "--timeout=3m",
                  *as_flags({"watch": watch} | values))  # fmt: skip

    def upgrade(self, **values):
        """Change values of the installation, and wait until the new operator is ready."""
        self.helm("upgrade", RELEASE, CHART, "--reset-then-reuse-values", "--wait", "--timeout=3m", *as_flags(values))

    def operators(self):
        """Return the operator's pods."""
        return self.list("pods", f"app.kubernetes.io/instance={RELEASE}", namespace=SYSTEM)

    def operator_log(self):
        """Return what the operator said."""
        selector = f"--selector=app.kubernetes.io/instance={RELEASE}"
        return self.kubectl("logs", selector, "--tail=-1", "--prefix", namespace=SYSTEM, check=False)

    def remove(self):
        """Have everything deleted, the operator first: it would put finalizers back. The rest is not waited for."""
        with contextlib.suppress(AssertionError):
            self.helm("uninstall", RELEASE, "--ignore-not-found", "--wait")
        for namespace in (self.namespace, self.restricted):
            for one in self.list("backfills", namespace=namespace):
                words = ("backfill", one["metadata"]["name"], "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
                self.kubectl("patch", *words, check=False, namespace=namespace)
            self.kubectl("delete", "namespace", namespace, "--wait=false", check=False)

    def until(self, what, true, within_s, every_s=0.5, signs=lambda: None):
        """Wait until a look gives something true; return it. Fails with what the cluster says.

        Args:
            what: Is waited for, in words.
            true: The look.
            within_s: How long nothing may change: on a busy machine all takes longer, and goes on.
            every_s: Between two looks.
            signs: Returns what changes while all is well. Without it the time is a limit for the whole.
        """
        deadline, before = time.monotonic() + within_s, signs()
        while True:
            seen = true()
            if seen:
                return seen
            if time.monotonic() >= deadline:
                now = signs()
                assert now != before, f"{what} not within {within_s} s of {now}\n{self.story()}"
                deadline, before = time.monotonic() + within_s, now
            time.sleep(every_s)

    def story(self, namespace=None):
        """Return what a reader of the report needs."""
        looks = (
            ("get", "backfills", "-o", "yaml"), ("get", "pods", "-o", "wide"), ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", "--selector=backfill.dev/role=driver", "--tail=30", "--prefix"),
            ("logs", "--selector=spark-role=executor", "--tail=30", "--prefix"),
        )  # fmt: skip
        return "\n".join(
            f"--- kubectl {' '.join(look)}\n{self.kubectl(*look, check=False, namespace=namespace)[-6000:]}"
            for look in looks
        )


ORDERS = """
    SELECT value AS order_id, concat('customer-', value * 7919 % 50000) AS customer,
        cast(value * 31 % 100000 / 100.0 - 5 AS decimal(10, 2)) AS amount,
        arrow_cast(1760000000000000 + value % 31536000 * 1000000, 'Timestamp(Microsecond, Some("UTC"))') AS ordered_at,
        CASE value % 4 WHEN 0 THEN 'new' WHEN 1 THEN 'paid' WHEN 2 THEN 'sent' ELSE 'returned' END AS status,
        md5(cast(value AS string)) AS note
    FROM generate_series({first}, {last})"""


def make_orders(folder, rows):
    """Make a table of so many orders."""
    append(str(folder), ORDERS, 0, rows)


class Writer:
    """A table of orders that another engine makes and changes every second or two until told to end."""

    EVERY_S = 1.5
    FILES = 8

    def __init__(self, folder, rows):
        self.folder, self.rows = str(folder), rows
        self.commits = 0
        self.failure = None
        self._next_id = rows
        self._random = random.Random(7)
        for first in range(0, rows, rows // self.FILES):
            append(self.folder, ORDERS, first, rows // self.FILES)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self):
        try:
            while not self._over.wait(self.EVERY_S):
                self._commit()
                self.commits += 1
        except Exception as error:
            self.failure = error

    def _commit(self):
        table, low = DeltaTable(self.folder), self._random.randrange(self.rows - 2000)
        match self.commits % 4:
            case 0:
                append(self.folder, ORDERS, self._next_id, 2000)
                self._next_id += 2000
            case 1:
                changed = {"amount": "cast(amount + 1 AS decimal(10, 2))", "status": "'sent'"}
                table.update(updates=changed, predicate=f"order_id >= {low} AND order_id < {low + 1500}")
            case 2:
                table.delete(f"order_id >= {low} AND order_id < {low + 400}")
            case _:
                changed = {"order_id": f"order_id + {self._next_id - low}"}
                table.update(updates=changed, predicate=f"order_id >= {low} AND order_id < {low + 300}")
                self._next_id += 300

    def end(self):
        """Have it end after its commit."""
        self._over.set()
        self._thread.join(60)


def build_images(environ):
    """Build both images from this tree, by whatever builds images here."""
    said(ROOT / "build-tools" / "image_parts.sh")
    command = environ.get("IMAGE_BUILD", str(ROOT / "build-tools" / "image_build.sh"))
    for name, image in IMAGES.items():
        said(command, ".", image, "--target", name, cwd=ROOT)


def seconds(moment):
    """Return a moment of the API as seconds since 1970."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()
