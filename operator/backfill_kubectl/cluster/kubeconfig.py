"""The user's kubeconfig: cluster, credentials and namespace; inside a pod without one, the pod's service account."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

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
    acts_as: tuple[tuple[str, str], ...] = ()
    """Headers of the user that the kubeconfig impersonates (`as`); the Python client ignores that user."""


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
        chosen = next((entry for entry in contexts if entry["name"] == context), current)
        acts_as = tuple(_impersonation(_user(path, chosen)))
    except ConfigException as error:
        if file is not None or context is not None:
            raise KubeconfigInvalidError(
                f"the kubeconfig cannot be used: {error}", hint="Check --kubeconfig and --context."
            ) from error
        return _of_pod(configuration, namespace, error)
    except KubeconfigInvalidError:
        raise
    except Exception as error:  # the library raises errors of YAML, of base64, of files and of credential plug-ins
        raise KubeconfigInvalidError(
            f"the kubeconfig cannot be read: {type(error).__name__}: {error}",
            hint="Compare with `kubectl config view`.",
        ) from error
    own = chosen.get("context", {}).get("namespace")
    return Login(configuration, namespace or own or DEFAULT_NAMESPACE, chosen["name"], acts_as)


def _user(path: str | None, context: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the user of a context; empty if it has none."""
    merged = kube_config.KubeConfigMerger(path or kube_config.KUBE_CONFIG_DEFAULT_LOCATION).config  # type: ignore[no-untyped-call]
    name = context["context"].get("user")
    users = [entry.value for entry in merged.value["users"]]
    return next((entry.get("user") or {} for entry in users if entry["name"] == name), {})


def _impersonation(user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the headers with which kubectl asks the API server to act as another user.

    Raises:
        KubeconfigInvalidError: groups, a UID or extra fields are given without the user.
    """
    groups, extra = user.get("as-groups") or [], user.get("as-user-extra") or {}
    if not user.get("as"):
        if groups or extra or user.get("as-uid"):
            raise KubeconfigInvalidError(
                "the kubeconfig cannot be used: it impersonates groups, a UID or extra fields without a user.",
                hint="Add `as: USER` to the user of the kubeconfig, or remove its as-groups, as-uid and as-user-extra.",
            )
        return
    yield "Impersonate-User", str(user["as"])
    if user.get("as-uid"):
        yield "Impersonate-Uid", str(user["as-uid"])
    yield from (("Impersonate-Group", str(group)) for group in groups)
    for name, values in extra.items():
        yield from ((f"Impersonate-Extra-{quote(str(name), safe='')}", str(value)) for value in values)


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
