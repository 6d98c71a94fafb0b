"""A pause of all jobs awaits the jobs of each namespace that the operator watches."""

from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest
from support.plugin.small_server import Answers, api_of, serving_api

from backfill_kubectl.cluster.all_jobs import scope_of


class Server(Answers, BaseHTTPRequestHandler):
    """Lists the deployments of an operator, and the namespaces with its label."""

    def do_GET(self):
        """Answer a list."""
        address = urlsplit(self.path)
        kind = address.path.rsplit("/", 1)[-1]
        items = {"deployments": [self.server.deployment]}.get(kind, [])
        if kind == "namespaces" and parse_qs(address.query).get("labelSelector") == ["team=x"]:
            items = [{"metadata": {"name": name}} for name in self.server.labelled]
        self.answer(403 if kind in self.server.forbidden else 200, {"kind": "Status", "metadata": {}, "items": items})


@pytest.fixture
def server():
    """An API server on loopback."""
    with serving_api(Server, labelled=["stock", "audit"], forbidden=()) as made:
        yield made


def scope(server, **variables):
    """Return the scope of an operator with these variables."""
    env = [{"name": f"BACKFILL_OPERATOR_{name}", "value": value} for name, value in variables.items()]
    server.deployment = {"spec": {"template": {"spec": {"containers": [{"env": env}]}}}}
    return scope_of(api_of(server), "shop", "backfill-system")


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
