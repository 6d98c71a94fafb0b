"""A registry on a node's own loopback address, from which a container runtime pulls without TLS. It asks for a name and a password.

It is a pod with the network of the node. Its program and its content are in the lake, so any node that sees the lake can run it.
"""

import base64
import json
import os
import secrets
import shutil

from support.cluster.harness import said
from support.node.real_job import LAKE
from support.node.real_node import IMAGES
from support.registry.push import push
from support.registry.release import write_export
from support.registry.server import Registry, answers, registry_program
from support.repository import ROOT

NAME, PORT = "registry", 5077
REPOSITORY = "team/backfill-spark"
PULLED = f"127.0.0.1:{PORT}/{REPOSITORY}"
"""The repository as the node pulls from it; the operator's settings must allow it."""

USER, PASSWORD = "puller", "right"
PASSWORD_FILE = f"{USER}:$2b$05$07/G8g/uFHLt3Ruxg8PNiOcuqb4JTnFMHsyob14IiaP.Moi4AWO92\n"
"""The password's hash (bcrypt), as `htpasswd` writes it."""


class RegistryOnNode:
    """The pod, and an image that only this registry has."""

    def __init__(self, node):
        """Take the node; nothing runs yet.

        Raises:
            NoStoreError: the program cannot be compiled.
        """
        self._node, self._folder = node, LAKE / NAME
        self._folder.mkdir()
        shutil.copy2(registry_program(), self._folder / NAME)
        (self._folder / "htpasswd").write_text(PASSWORD_FILE)
        (self._folder / "registry.json").write_text(json.dumps(_settings(self._folder)))  # JSON is YAML
        self.image = f"{PULLED}:{secrets.token_hex(4)}"
        """An image that no node has pulled yet."""

    def push(self, folder):
        """Push the image of drivers; a folder keeps its archive meanwhile."""
        archive = folder / "spark.oci.tar"
        said("bash", _export_program(folder), IMAGES["spark"], archive)
        [node, *_] = self._node.list("nodes")
        host = next(entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP")
        registry = Registry(self._folder, f"{host}:{PORT}", user=f"{USER}:{PASSWORD}")
        self._node.until("the registry", lambda: answers(registry), 60)
        push(archive, registry, REPOSITORY, self.image.rpartition(":")[2])
        archive.unlink()

    def start(self):
        """Start the pod."""
        self._node.kubectl("apply", "-f", "-", stdin=json.dumps(_pod(self._folder)))

    def stop(self):
        """End the pod; the content stays."""
        self._node.kubectl("delete", "pod", NAME, "--grace-period=0", "--force", "--ignore-not-found")


def pull_secret(password):
    """Return the content of a pull secret for the registry."""
    entry = {"auth": base64.b64encode(f"{USER}:{password}".encode()).decode()}
    return {".dockerconfigjson": json.dumps({"auths": {PULLED.partition("/")[0]: entry}})}


def _export_program(folder):
    """Return the program that writes a built image as an archive: of the kit if it builds the images, else of this machine's tool."""
    if os.environ.get("BACKFILL_TEST_CLUSTER"):
        return write_export(folder / "export.sh", "--disable-compression")
    return ROOT / "build-tools" / "image_export.sh"


def _settings(folder):
    return {
        "version": 0.1, "log": {"level": "info"}, "http": {"addr": f":{PORT}"},
        "storage": {"filesystem": {"rootdirectory": str(folder / "content")}},
        "auth": {"htpasswd": {"realm": "team", "path": str(folder / "htpasswd")}},
    }  # fmt: skip


def _pod(folder):
    container = {
        "name": NAME, "image": IMAGES["operator"], "imagePullPolicy": "IfNotPresent",
        "command": [str(folder / NAME), "serve", str(folder / "registry.json")],
        "securityContext": {"runAsUser": 0}, "volumeMounts": [{"name": "lake", "mountPath": str(folder)}],
    }  # fmt: skip
    spec = {
        "hostNetwork": True, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container],
        "volumes": [{"name": "lake", "hostPath": {"path": str(folder)}}],
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME}, "spec": spec}
