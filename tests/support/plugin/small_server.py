"""An API server on loopback of which a test writes only the answers."""

import json
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

from kubernetes.client.configuration import Configuration
from support.stores.fault_proxy import serving

from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.kubeconfig import Login


class Answers:
    """Part of a request handler; `self.server` has the attributes that the test gave to `serving_api`."""

    def answer(self, status, document):
        """Answer with JSON."""
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Print nothing."""


@contextmanager
def serving_api(handler, **attributes):
    """Serve while the block runs; the server has the attributes, and each request has a thread."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    vars(server).update(attributes)
    with serving(server):
        yield server


def api_of(server):
    """Return a client of the server, in the namespace `shop`."""
    configuration = Configuration()
    configuration.host = url_of(server)
    return ApiServer(Login(configuration, "shop", "test"))


def url_of(server):
    """Return the address of the server."""
    return f"http://127.0.0.1:{server.server_port}"
