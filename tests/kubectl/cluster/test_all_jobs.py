"""A pause of all jobs awaits the jobs of each namespace that the operator watches."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes.client.configuration import Configuration

from backfill_kubectl.cluster.all_jobs import scope_of
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.kubeconfig import Login


class Server(BaseHTTPRequestHandler):
    """Lists the deployments of an operator, and the namespaces with its label."""

    def do_GET(self):
        """Answer a list."""
        address = urlsplit(self.path)
        kind = address.path.rsplit("/", 1)[-1]
        items = {"deployments": [self.server.deployment]}.get(kind, [])
        if kind == "namespaces" and parse_qs(address.query).get("labelSelector") == ["team=x"]:
            items = [{"metadata": {"name": name}} for name in self.server.labelled]
        body = json.dumps({"kind": "Status", "metadata": {}, "items": items}).encode()
        self.send_response(403 if kind in self.server.forbidden else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def server():
    """An API server on loopback."""
    with HTTPServer(("127.0.0.1", 0), Server) as made:
        made.labelled, made.forbidden = ["stock", "audit"], ()
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def scope(server, **variables):
    """Return the scope of an operator with these variables."""
    env = [{"name": f"BACKFILL_OPERATOR_{name}", "value": value} for name, value in variables.items()]
    server.deployment = {"spec": {"template": {"spec": {"containers": [{"env": env}]}}}}
    configuration = Configuration()
    configuration.host = f"http://127.0.0.1:{server.server_port}"
    return scope_of(ApiServer(Login(configuration, "shop", "test")), "shop", "backfill-system")


class TestNamespacesOfTheOperator:
    """A job that is not awaited would count as paused without an acknowledgement."""

    def test_namespaces_with_its_label_are_awaited_next_to_the_named_ones(self, server):
        """The chart's `watch.namespaceSelector` adds them."""
        watched = scope(server, NAMESPACES="shop", NAMESPACE_SELECTOR="team=x").watched

        assert watched == {"shop", "stock", "audit"}

    def test_only_namespaces_with_its_label_are_awaited_without_names(self, server):
        """Jobs of another operator would never acknowledge."""
        assert scope(server, NAMESPACE_SELECTOR="team=x").watched == {"stock", "audit"}

    def test_all_are_awaited_if_its_namespaces_are_unknown(self, server):
        """A message about a job too many is better than a pause that does not hold."""
        server.forbidden = ("namespaces",)

        assert scope(server, NAMESPACES="shop", NAMESPACE_SELECTOR="team=x").watched is None
        assert scope(server).watched is None

    def test_named_namespaces_are_awaited_without_the_right_to_list_namespaces(self, server):
        """Their names are those of the Deployment."""
        server.forbidden = ("namespaces",)

        assert scope(server, NAMESPACES="shop,stock").watched == {"shop", "stock"}
