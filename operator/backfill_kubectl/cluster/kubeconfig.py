"""The user's kubeconfig: cluster, credentials and namespace; inside a pod without one, the pod's service account."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kubernetes.client.configuration import Configuration
from kubernetes.config import incluster_config, kube_config
from kubernetes.config.config_exception import ConfigException

from backfill_api.names import DEFAULT_NAMESPACE
from backfill_kubectl.errors import KubeconfigInvalidError

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
IN_CLUSTER = "(in the cluster)"


@dataclass(frozen=True, slots=True)
class Login:
    """Cluster, credentials and default namespace of the user."""

    configuration: Configuration
    namespace: str
    context: str


def log_in(file: Path | None, context: str | None, namespace: str | None) -> Login:
    """Return the login of a kubeconfig, or of the pod in which this process runs.

    Args:
        file: The kubeconfig; `None` for the files of `KUBECONFIG`, else `~/.kube/config`.
        context: Name of a context; `None` for the current one.
        namespace: Namespace of the command; `None` for that of the context.

    Raises:
        KubeconfigInvalidError: there is no usable kubeconfig and no service account.
    """
    configuration = Configuration()
    path = None if file is None else str(file)
    try:
        contexts, current = kube_config.list_kube_config_contexts(path)  # type: ignore[no-untyped-call]
        kube_config.load_kube_config(path, context, client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        if file is not None or context is not None:
            raise KubeconfigInvalidError(
                f"the kubeconfig cannot be used: {error}", hint="Check --kubeconfig and --context."
            ) from error
        return _of_pod(configuration, namespace, error)
    except Exception as error:  # the library raises errors of YAML, of base64, of files and of credential plug-ins
        raise KubeconfigInvalidError(
            f"the kubeconfig cannot be read: {type(error).__name__}: {error}",
            hint="Compare with `kubectl config view`.",
        ) from error
    chosen = next((entry for entry in contexts if entry["name"] == context), current)
    own = chosen.get("context", {}).get("namespace")
    return Login(configuration, namespace or own or DEFAULT_NAMESPACE, chosen["name"])


def _of_pod(configuration: Configuration, namespace: str | None, cause: ConfigException) -> Login:
    """Return the login of the pod's service account.

    Raises:
        KubeconfigInvalidError: this process runs in no pod.
    """
    try:
        incluster_config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        raise KubeconfigInvalidError(
            f"there is no kubeconfig: {cause}", hint="Set KUBECONFIG, or give --kubeconfig FILE."
        ) from error
    own = POD_NAMESPACE.read_text(encoding="utf-8").strip() if POD_NAMESPACE.is_file() else DEFAULT_NAMESPACE
    return Login(configuration, namespace or own, IN_CLUSTER)
