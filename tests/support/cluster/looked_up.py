"""A server for helm's `lookup`: it answers discovery and lists, and nothing else."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml

KINDS = {
    "v1": {"namespaces": "Namespace"},
    "apps/v1": {"deployments": "Deployment"},
    "apiextensions.k8s.io/v1": {"customresourcedefinitions": "CustomResourceDefinition"},
    "rbac.authorization.k8s.io/v1": {"rolebindings": "RoleBinding", "clusterrolebindings": "ClusterRoleBinding"},
}
WITHOUT_NAMESPACE = {"namespaces", "clusterrolebindings", "customresourcedefinitions"}


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        status, body = self.server.answer(self.path.partition("?")[0].strip("/"))
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    def __init__(self, objects, forbidden):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.objects, self.forbidden, self.asked = objects, forbidden, set()

    def answer(self, path):
        """Return status and body for the path of a group's resources, of one object, or of a list."""
        for version, kinds in KINDS.items():
            root = f"api/{version}" if version == "v1" else f"apis/{version}"
            if path == root:
                resources = [
                    {"name": name, "kind": kind, "namespaced": name not in WITHOUT_NAMESPACE, "verbs": ["get", "list"]}
                    for name, kind in kinds.items()
                ]
                return 200, {"kind": "APIResourceList", "groupVersion": version, "resources": resources}
            if path.startswith(f"{root}/"):
                return self._objects(version, path.removeprefix(f"{root}/").split("/"))
        return _none()

    def _objects(self, version, parts):
        namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 2 else None
        plural, name = (parts[2:] if namespace else parts)[0], (parts[3:] if namespace else parts[1:])
        kind = KINDS[version][plural]
        self.asked.add(kind)
        if kind in self.forbidden:
            return 403, {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": f"{plural} is forbidden"}  # fmt: skip
        matching = [object_ for object_ in self.objects if object_["kind"] == kind]
        matching = [object_ for object_ in matching if namespace in (None, object_["metadata"].get("namespace"))]
        if name:
            return next(((200, object_) for object_ in matching if object_["metadata"]["name"] == name[0]), _none())
        return 200, {"kind": f"{kind}List", "apiVersion": version, "metadata": {}, "items": matching}


def _none():
    return 404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "message": "not found"}


@contextlib.contextmanager
def looked_up(folder, *objects, forbidden=()):
    """Give the kubeconfig of a server with these objects; kinds in `forbidden` cannot be read."""
    server = _Server(objects, forbidden)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    file = folder / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "it",
                "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
                "users": [{"name": "it", "user": {"token": "any"}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
            }
        )
    )
    try:
        yield file, server.asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
