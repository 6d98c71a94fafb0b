"""Cluster, credentials and namespace come from the user's kubeconfig, or from the pod."""

import json
from http.server import BaseHTTPRequestHandler

import pytest
from kubernetes.config import incluster_config, kube_config
from support.endings import assert_ending
from support.operators.plugin import invoke
from support.plugin.small_server import Answers, serving_api, url_of

from backfill_kubectl.cluster import kubeconfig
from backfill_kubectl.cluster.kubeconfig import IN_CLUSTER, log_in
from backfill_kubectl.errors import KubeconfigInvalidError


def document(namespace="shop"):
    """Return a kubeconfig with two contexts."""
    contexts = [
        {"name": "one", "context": {"cluster": "a", "user": "u", "namespace": namespace}},
        {"name": "two", "context": {"cluster": "b", "user": "u"}},
    ]
    clusters = [{"name": name, "cluster": {"server": f"https://{name}.example"}} for name in ("a", "b")]
    users = [{"name": "u", "user": {"token": "t"}}]
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": contexts,
        "clusters": clusters,
        "users": users,
    }


@pytest.fixture
def file(tmp_path):
    """A kubeconfig."""
    path = tmp_path / "config"
    path.write_text(json.dumps(document()))
    return path


@pytest.fixture
def without_kubeconfig(tmp_path, monkeypatch):
    """A user without a kubeconfig, on no pod."""
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "missing"))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


class TestTheKubeconfig:
    """Options take precedence over the file."""

    def test_current_context_decides(self, file):
        """Server and namespace are its own."""
        login = log_in(file, None, None)

        assert (login.configuration.host, login.namespace, login.context) == ("https://a.example", "shop", "one")

    def test_options_choose_context_and_namespace(self, file):
        """A context without a namespace has `default`."""
        assert log_in(file, "two", None).namespace == "default"
        assert log_in(file, "two", "stock").namespace == "stock"
        assert log_in(file, "two", None).configuration.host == "https://b.example"

    @pytest.mark.parametrize("text", ["", "a: [", "[]", "{}", '{"contexts": 5}', "\x00"])
    def test_broken_file_is_named(self, tmp_path, text):
        """The message is one line with a remedy."""
        path = tmp_path / "broken"
        path.write_text(text)

        with pytest.raises(KubeconfigInvalidError, match="the kubeconfig cannot be") as caught:
            log_in(path, None, None)
        assert caught.value.hint
        assert_ending(invoke(path, None, "list"), "KubeconfigInvalid")

    def test_missing_context_is_named(self, file):
        """A typo must not reach another cluster."""
        with pytest.raises(KubeconfigInvalidError, match="three"):
            log_in(file, "three", None)


@pytest.fixture
def server():
    """An API server without objects; `seen` has the headers of each request."""

    class Handler(Answers, BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.seen.append(self.headers)
            self.answer(200, {"metadata": {}, "items": []})

    with serving_api(Handler, seen=[]) as made:
        yield made


def acting(server, **user):
    """Return a kubeconfig of a user who impersonates another one."""
    config = document()
    config["clusters"][0]["cluster"]["server"] = url_of(server)
    config["users"][0]["user"] |= user
    return json.dumps(config)


class TestAnImpersonatedUser:
    """`as` of a kubeconfig: kubectl acts with the rights of that user, so this command must not act with more."""

    def test_each_request_names_the_user_and_its_groups(self, tmp_path, server):
        """The API server checks the rights of the named user."""
        path = tmp_path / "config"
        extra = {"as-uid": "7", "as-user-extra": {"acme.com/reason": ["a", "b"]}}
        path.write_text(acting(server, **{"as": "viewer", "as-groups": ["team", "shop"], **extra}))

        listed = invoke(path, None, "list")

        assert listed.exit_code == 0, listed.output
        headers = server.seen[0]
        assert (headers["Impersonate-User"], headers["Impersonate-Uid"]) == ("viewer", "7")
        assert headers.get_all("Impersonate-Group") == ["team", "shop"]
        assert headers.get_all("Impersonate-Extra-acme.com%2Freason") == ["a", "b"]

    def test_user_without_it_is_named_in_no_request(self, tmp_path, server):
        """An empty name is an error of the API server."""
        path = tmp_path / "config"
        path.write_text(acting(server))

        assert invoke(path, None, "list").exit_code == 0
        assert [name for name in server.seen[0] if name.startswith("Impersonate")] == []

    def test_groups_without_a_user_are_refused(self, tmp_path, server):
        """The rights would be those of the caller."""
        path = tmp_path / "config"
        path.write_text(acting(server, **{"as-groups": ["team"]}))

        assert_ending(invoke(path, None, "list"), "KubeconfigInvalid")
        assert server.seen == []


class TestAPod:
    """A pod without a kubeconfig has its service account."""

    def test_process_outside_of_a_pod_needs_a_kubeconfig(self, without_kubeconfig):
        """The remedy names the variable."""
        with pytest.raises(KubeconfigInvalidError, match="there is no kubeconfig") as caught:
            log_in(None, None, None)
        assert "KUBECONFIG" in caught.value.hint

    def test_service_account_of_the_pod_is_used(self, without_kubeconfig, tmp_path, monkeypatch):
        """Its namespace is the default one."""
        for name, text in (("token", "pod-token"), ("ca.crt", "certificate"), ("namespace", "jobs\n")):
            (tmp_path / name).write_text(text)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        monkeypatch.setattr(kubeconfig, "POD_NAMESPACE", tmp_path / "namespace")
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))

        login = log_in(None, None, None)

        assert (login.namespace, login.context, login.configuration.host) == (
            "jobs",
            IN_CLUSTER,
            "https://10.0.0.1:443",
        )
