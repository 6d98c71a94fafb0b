"""What a run on a real node needs beside the cluster: the image, the accounts, the operator's process and a live writer."""

import contextlib
import json
import os
import random
import secrets
import shutil
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import yaml
from deltalake import DeltaTable
from support.cluster_harness import end
from support.other_engine import append

ROOT = Path(__file__).parent.parent.parent
IMAGE = "localhost/backfill-spark:dev"
SYSTEM = "backfill-system"
TOKEN_DURATION = "2h"


class Node:
    """A namespace of a cluster with kubelets, seen through kubectl."""

    def __init__(self, cluster, environ):
        self.cluster = cluster
        self.namespace = f"e2e-{secrets.token_hex(3)}"
        kit = environ.get("BACKFILL_TEST_CLUSTER")
        if shutil.which("kubectl"):
            self._command = ("kubectl", f"--kubeconfig={cluster.kubeconfig}")
        elif kit:
            self._command = (kit, "kubectl")
        else:
            raise FileNotFoundError("kubectl is needed")

    def kubectl(self, *words, stdin=None, check=True):
        """Run kubectl in the namespace; return what it says."""
        command = [*self._command, "-n", self.namespace, *words]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0 or not check, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def get(self, kind, name):
        """Return an object, or None."""
        text = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text else None

    def list(self, kinds, selector=""):
        return json.loads(self.kubectl("get", kinds, "-o", "json", f"--selector={selector}"))["items"]

    def install(self):
        """Bring the CRD, the roles and the accounts by the manifests that the docs name; the operator itself runs here."""
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(ROOT / "crds" / "backfills.yaml"))
        self.kubectl("wait", "--for=condition=Established", "crd/backfills.backfill.dev", "--timeout=30s")
        documents = yaml.safe_load_all((ROOT / "operator" / "deploy" / "operator.yaml").read_text())
        accounts = yaml.safe_dump_all(one for one in documents if one["kind"] != "Deployment")
        # Not in the namespace of this run: kubectl would refuse the others.
        for stdin in (accounts, (ROOT / "operator" / "rbac.yaml").read_text()):
            subprocess.run(
                [*self._command, "apply", "-f", "-"], input=stdin, text=True, check=True, capture_output=True
            )
        subprocess.run([*self._command, "create", "namespace", self.namespace], check=True, capture_output=True)
        self.kubectl("apply", "-f", str(ROOT / "operator" / "deploy" / "spark-account.yaml"))

    def remove(self):
        """Have the namespace deleted; nobody waits for it, and no operator is there to take its finalizer away."""
        self.kubectl(
            "patch", "backfill", "orders", "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=False
        )
        self.kubectl("delete", "namespace", self.namespace, "--wait=false", check=False)

    def operator_kubeconfig(self, folder):
        """Write a kubeconfig of the operator's own account: what its roles forbid fails here as it would in a pod."""
        token = subprocess.run(
            [*self._command, "-n", SYSTEM, "create", "token", "backfill-operator", f"--duration={TOKEN_DURATION}"],
            check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        config = yaml.safe_load(self.cluster.kubeconfig.read_text())
        chosen = next(one for one in config["contexts"] if one["name"] == config["current-context"])
        chosen["context"]["user"] = "operator"
        config["users"] = [{"name": "operator", "user": {"token": token}}]
        config["contexts"] = [chosen]
        file = folder / "operator.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(config))
        return file

    @contextlib.contextmanager
    def operator(self, folder, log):
        """Run the operator from this checkout while the block lasts."""
        settings = {
            "NAMESPACES": self.namespace, "DEFAULT_IMAGE": IMAGE, "LEASE_NAME": self.namespace, "BIND": "127.0.0.1",
            "HEALTH_PORT": "0", "METRICS_PORT": "0",
        }  # fmt: skip
        environ = {name: value for name, value in os.environ.items() if not name.startswith("BACKFILL_")}
        environ |= {f"BACKFILL_OPERATOR_{name}": value for name, value in settings.items()}
        environ |= {"KUBECONFIG": str(self.operator_kubeconfig(folder)), "PYTHONPATH": _python_path()}
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "backfill_operator"], env=environ, stdout=out, stderr=out, cwd=folder
            )
            try:
                yield process
            finally:
                end(process, within_s=20)

    def until(self, what, true, within_s, every_s=0.5):
        """Wait until a look gives something true; return it. Fails with what the cluster says."""
        deadline = time.monotonic() + within_s
        while True:
            seen = true()
            if seen:
                return seen
            assert time.monotonic() < deadline, f"{what} not within {within_s} s\n{self.story()}"
            time.sleep(every_s)

    def story(self):
        """Return what somebody needs who was not there."""
        looks = (
            ("get", "backfills", "-o", "yaml"), ("get", "pods", "-o", "wide"), ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", "--selector=backfill.dev/role=driver", "--tail=30", "--prefix"),
            ("logs", "--selector=spark-role=executor", "--tail=30", "--prefix"),
        )  # fmt: skip
        return "\n".join(f"--- kubectl {' '.join(look)}\n{self.kubectl(*look, check=False)[-6000:]}" for look in looks)


ORDERS = """
    SELECT value AS order_id, concat('customer-', value * 7919 % 50000) AS customer,
        cast(value * 31 % 100000 / 100.0 - 5 AS decimal(10, 2)) AS amount,
        arrow_cast(1760000000000000 + value % 31536000 * 1000000, 'Timestamp(Microsecond, Some("UTC"))') AS ordered_at,
        CASE value % 4 WHEN 0 THEN 'new' WHEN 1 THEN 'paid' WHEN 2 THEN 'sent' ELSE 'returned' END AS status,
        md5(cast(value AS string)) AS note
    FROM generate_series({first}, {last})"""


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


def build_image():
    """Build the driver's image from this tree, by whatever builds images here."""
    subprocess.run([ROOT / "build-tools" / "image_parts.sh"], check=True)
    command = os.environ.get("IMAGE_BUILD", str(ROOT / "build-tools" / "image_build.sh"))
    subprocess.run([command, ".", IMAGE, "--target", "spark"], cwd=ROOT, check=True)


def seconds(moment):
    """Return a moment of the API as seconds since 1970."""
    return datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp()


def _python_path():
    return os.pathsep.join(str(ROOT / name) for name in ("crds", "operator", "spark_app"))
