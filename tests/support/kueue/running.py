"""A real Kueue: its program on a dedicated API server, with its CRDs, its conversion and its webhooks. No node is needed.

The API server reaches the webhooks by a Service with an external name: on loopback, or at an address of this machine that a node
reaches. Kueue makes the certificates, as in a cluster; a kubelet would mount them from their Secret, and this module writes them.
Kueue's integrations of other kinds of jobs are off.
"""

import base64
import contextlib
import os
import subprocess
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import yaml
from kubernetes import client, config
from support.cluster.harness import end, install_crd, kit_home, own_server
from support.kueue.build import NoKueueError, compile_kueue, kueue_build
from support.unused_ports import unused_ports

NAMESPACE, SERVICE, SECRET = "kueue-system", "kueue-webhook-service", "kueue-webhook-server-cert"
GROUP = "kueue.x-k8s.io"
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "multikueueclusters", "workloads")
"""Kinds with two versions: Kueue converts them, and refuses to start if their CRDs do not say so."""

UP_S = 120
OK = 200


@contextlib.contextmanager
def running_kueue(folder, **configuration):
    """Give a running Kueue and its API server, and end both afterwards.

    Args:
        folder: For Kueue's configuration, certificates and log.
        configuration: Further fields of Kueue's configuration.

    Raises:
        NoKueueError: Kueue is not compiled, or there is no API server for it; the message has the remedy.
    """
    build, programs = kueue_build(), _server_programs()
    with own_server(programs) as kubeconfig:
        kueue = RealKueue(build, kubeconfig, folder, configuration)
        with config.new_client_from_config(str(kubeconfig)) as api:
            _install(api, build, kueue)
        try:
            kueue.start()
            yield kueue
        finally:
            kueue.stop()


@contextlib.contextmanager
def kueue_on(kubeconfig, folder, address):
    """Give a running Kueue on a cluster that stays; afterwards its process and its objects are gone. Its queues must be gone before.

    Args:
        kubeconfig: Path of the cluster's configuration.
        folder: For Kueue's configuration, certificates and log.
        address: Address of this machine at which the API server reaches the webhooks.

    Raises:
        NoKueueError: Kueue is not compiled, and cannot be; the message has the remedy.
    """
    build = compile_kueue()
    kueue = RealKueue(build, kubeconfig, folder, {}, host=address)
    with config.new_client_from_config(str(kubeconfig)) as api:
        try:
            _install(api, build, kueue)
            kueue.start()
            yield kueue
        finally:
            _uninstall(api, build)
            kueue.stop()


class RealKueue:
    """The process of Kueue."""

    def __init__(self, build, kubeconfig, folder, configuration, host="127.0.0.1"):
        self.kubeconfig, self.host = kubeconfig, host
        [self.webhooks], [self.health] = unused_ports(host, 1), unused_ports("127.0.0.1", 1)
        self._program, self._folder, self._log = build.program, folder, folder / "kueue.log"
        self._certificates, self._process = folder / "certificates", None
        settings = {
            "apiVersion": f"config.{GROUP}/v1beta2", "kind": "Configuration", "namespace": NAMESPACE,
            "health": {"healthProbeBindAddress": f"127.0.0.1:{self.health}"}, "metrics": {"bindAddress": "0"},
            "webhook": {"host": host, "port": self.webhooks, "certDir": str(self._certificates)},
            "leaderElection": {"leaderElect": False}, "integrations": {"frameworks": ["batch/job"]},
            "internalCertManagement": {"enable": True, "webhookServiceName": SERVICE, "webhookSecretName": SECRET},
            "clientConnection": {"qps": 200, "burst": 400},
            "featureGates": {"VisibilityOnDemand": False, "MultiKueue": False, "TopologyAwareScheduling": False},
        }  # fmt: skip
        (folder / "kueue.yaml").write_text(yaml.safe_dump(settings | configuration))

    def start(self):
        """Start it, and wait until it serves its webhooks."""
        command = [str(self._program), f"--config={self._folder / 'kueue.yaml'}", "--zap-log-level=2"]
        environ = os.environ | {"KUBECONFIG": str(self.kubeconfig), "GOMAXPROCS": "1"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        self._until(self._mounts_certificates)
        self._until(self._is_ready)

    def stop(self):
        """End it; the API server stays."""
        if self._process is not None:
            end(self._process)
            self._process = None

    def _mounts_certificates(self):
        """Write the certificates that Kueue makes to its folder, as a kubelet does."""
        with config.new_client_from_config(str(self.kubeconfig)) as api:
            data = client.CoreV1Api(api).read_namespaced_secret(SECRET, NAMESPACE).data
        self._certificates.mkdir(exist_ok=True)
        for name in sorted(data or (), key="tls.crt".__eq__):  # Kueue waits for this one
            (self._certificates / name).write_bytes(base64.b64decode(data[name]))
        return bool(data)

    def _is_ready(self):
        with contextlib.suppress(urllib.error.URLError, OSError):
            return urllib.request.urlopen(f"http://127.0.0.1:{self.health}/readyz", timeout=5).status == OK
        return False

    def _until(self, true):
        deadline = time.monotonic() + UP_S
        while not true():
            assert self._process.poll() is None, f"Kueue has ended:\n{self._log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"Kueue is not ready:\n{self._log.read_text()[-2000:]}"
            time.sleep(0.1)


def _server_programs():
    for folder in filter(None, (os.environ.get("KUBEBUILDER_ASSETS"), str(kit_home() / "bin"))):
        if all((Path(folder) / name).is_file() for name in ("etcd", "kube-apiserver")):
            return Path(folder)
    raise NoKueueError(
        "there is no API server for Kueue: set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver"
    )


def _install(api, build, kueue):
    core = client.CoreV1Api(api)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    core.create_namespaced_secret(NAMESPACE, {"metadata": {"name": SECRET}})
    outside = {"type": "ExternalName", "externalName": kueue.host}
    core.create_namespaced_service(NAMESPACE, {"metadata": {"name": SERVICE}, "spec": outside})
    service = {"name": SERVICE, "namespace": NAMESPACE, "port": kueue.webhooks}
    for file in sorted(build.crds.glob("*.yaml")):
        crd = yaml.safe_load(file.read_text())
        if crd["spec"]["names"]["plural"] in CONVERTED:
            webhook = {"clientConfig": {"service": service | {"path": "/convert"}}, "conversionReviewVersions": ["v1"]}
            crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        install_crd(api, crd)
    mutating, validating = yaml.safe_load_all(build.webhooks.read_text())
    admission = client.AdmissionregistrationV1Api(api)
    admission.create_mutating_webhook_configuration(_of_kueue(mutating, service))
    admission.create_validating_webhook_configuration(_of_kueue(validating, service))


def _uninstall(api, build):
    """Delete the webhooks, the CRDs and the namespace of Kueue."""
    admission, crds = client.AdmissionregistrationV1Api(api), client.ApiextensionsV1Api(api)
    mutating, validating = yaml.safe_load_all(build.webhooks.read_text())
    deletions = [
        partial(admission.delete_mutating_webhook_configuration, f"kueue-{mutating['metadata']['name']}"),
        partial(admission.delete_validating_webhook_configuration, f"kueue-{validating['metadata']['name']}"),
    ]
    for file in build.crds.glob("*.yaml"):
        deletions.append(
            partial(crds.delete_custom_resource_definition, yaml.safe_load(file.read_text())["metadata"]["name"])
        )
    for delete in [*deletions, partial(client.CoreV1Api(api).delete_namespace, NAMESPACE)]:
        with contextlib.suppress(client.ApiException):
            delete()


def _of_kueue(configuration, service):
    """Return a webhook configuration with the webhooks of Kueue's own kinds."""
    kept = [hook for hook in configuration["webhooks"] if hook["rules"][0]["apiGroups"] == [GROUP]]
    for hook in kept:
        hook["clientConfig"]["service"] = service | {"path": hook["clientConfig"]["service"]["path"]}
    return configuration | {"metadata": {"name": f"kueue-{configuration['metadata']['name']}"}, "webhooks": kept}
