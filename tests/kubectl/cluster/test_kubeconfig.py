"""Cluster, credentials and namespace come from the user's kubeconfig, or from the pod."""

import json

import pytest
from kubernetes.config import incluster_config, kube_config
from support.endings import assert_ending
from support.operators.plugin import invoke

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
