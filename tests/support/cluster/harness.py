"""A real API server for tests, from any tool that provides one; without a tool, its tests are skipped with the reason.

Providers, in this order:

    KUBECONFIG             an existing cluster, used unchanged
    KUBEBUILDER_ASSETS     a folder with `etcd` and `kube-apiserver` (envtest's convention), started on loopback
    kind, k3d              when installed: a cluster named `backfill-tests`, made once and kept
    BACKFILL_TEST_CLUSTER  a command with `up [--api-only]`, `kubeconfig`, `down`, `load IMAGE`
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import yaml
from support.unused_ports import unused_ports

ROOT = Path(__file__).parents[3]
NAME = "backfill-tests"
UP_S = 120.0
BUILD_S = 1800.0
LINES_TOLD = 25
"""Lines of a failed command's output in the error."""


class NoClusterError(Exception):
    """No tool provides a cluster; the message lists the tools that were tried."""


class CommandFailedError(Exception):
    """A command of the harness failed; the message ends with the last lines of its output."""


def kit_home():
    """Return the folder in which the kit keeps its files."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("CLUSTER_HOME") or cache / "backfill-cluster")


def tool(name):
    """Return the path of kubectl or helm, from the path or from the kit's folder; `None` if it is missing."""
    return shutil.which(name) or shutil.which(name, path=kit_home() / "bin")


@dataclass(frozen=True)
class Borrowed:
    """A running cluster."""

    provider: str
    kubeconfig: Path
    has_nodes: bool
    """Run kubelets and controllers if true, else only the API."""

    load_command: tuple[str, ...] = ()

    def load(self, image):
        """Load an image onto the nodes."""
        if self.load_command:
            said(*self.load_command, image)


@contextlib.contextmanager
def borrowed_cluster(environ, *, nodes=False, mounted=None):
    """Give a cluster while the block runs.

    Args:
        environ: Variables that name the providers.
        nodes: Require kubelets.
        mounted: A folder of this machine that the nodes must see at the same path. A cluster that is made here sees it;
            an existing cluster is trusted to.

    Raises:
        NoClusterError: no tool provides one.
    """
    match provider(environ, nodes=nodes):
        case "KUBECONFIG":
            given = Path(environ["KUBECONFIG"])
            yield Borrowed("KUBECONFIG", given, has_nodes=_has_nodes(given))
        case "KUBEBUILDER_ASSETS":
            with own_server(Path(environ["KUBEBUILDER_ASSETS"])) as kubeconfig:
                yield Borrowed("KUBEBUILDER_ASSETS", kubeconfig, has_nodes=False)
        case "kind" | "k3d" as name:
            yield _local(name, mounted)
        case "BACKFILL_TEST_CLUSTER":
            with _kit(environ["BACKFILL_TEST_CLUSTER"], nodes=nodes) as cluster:
                yield cluster
        case _:
            some = "kind, k3d" if nodes else "KUBEBUILDER_ASSETS, kind, k3d"
            raise NoClusterError(
                f"there is no KUBECONFIG, {some} or BACKFILL_TEST_CLUSTER (docs/kubernetes.md, Tested)"
            )


def provider(environ, *, nodes=False):
    """Return the first provider that can give a cluster here; `None` if there is none."""
    can = {
        "KUBECONFIG": environ.get("KUBECONFIG"),
        "KUBEBUILDER_ASSETS": environ.get("KUBEBUILDER_ASSETS") and not nodes,
        "kind": shutil.which("kind"),
        "k3d": shutil.which("k3d"),
        "BACKFILL_TEST_CLUSTER": environ.get("BACKFILL_TEST_CLUSTER"),
    }
    return next((name for name, configured in can.items() if configured), None)


def _has_nodes(kubeconfig):
    """Return whether the cluster runs pods and controllers."""
    from kubernetes import client, config

    with config.new_client_from_config(str(kubeconfig)) as api:
        return bool(client.CoreV1Api(api).list_node(limit=1).items)


def said(*command, cwd=None, environ=None, timeout=None):
    """Run a command; return its output.

    Raises:
        CommandFailedError: with its last lines, because the others are not shown.
    """
    arguments = [str(word) for word in command]
    try:
        done = subprocess.run(
            arguments,
            cwd=cwd,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CommandFailedError(f"{' '.join(arguments)}: {error}") from error
    if done.returncode:
        output = "\n".join(done.stdout.splitlines()[-LINES_TOLD:])
        raise CommandFailedError(f"{' '.join(arguments)} ended with {done.returncode}:\n{output}")
    return done.stdout


@contextlib.contextmanager
def _kit(command, *, nodes):
    """Start the cluster of a command, or use a running one; the last process that uses a started cluster stops it."""
    shared = kit_home() / "tests.users"
    shared.parent.mkdir(parents=True, exist_ok=True)
    with shared.open("a+") as users:
        fcntl.flock(users, fcntl.LOCK_SH)  # waits while another process stops the cluster
        started = _started(command, nodes=nodes)
        try:
            kubeconfig = said(command, "kubeconfig").strip().splitlines()[-1]
        except CommandFailedError as error:
            raise NoClusterError(str(error)) from error
        if started:
            _write(users, "started")
        try:
            yield Borrowed("BACKFILL_TEST_CLUSTER", Path(kubeconfig), has_nodes=nodes, load_command=(command, "load"))
        finally:
            with contextlib.suppress(BlockingIOError):  # another process uses it
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                users.seek(0)
                if users.read():
                    subprocess.run([command, "down"], check=False, capture_output=True)
                    _write(users, "")


def _started(command, *, nodes):
    """Start a cluster with a command; return whether none was running before."""
    try:
        before = subprocess.run([command, "kubeconfig"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise NoClusterError(f"BACKFILL_TEST_CLUSTER={command} cannot be run: {error.strerror}") from error
    try:
        if nodes:
            # Each returns at once if its work is done.
            for arguments in (["setup"], ["build", "--helm"], ["base-image"]):
                said(command, *arguments, timeout=BUILD_S)
        said(command, "up", *([] if nodes else ["--api-only"]), timeout=UP_S)
    except CommandFailedError as error:
        raise NoClusterError(str(error)) from error
    return before.returncode != 0 or not Path(before.stdout.strip()).is_file()


def _write(file, text):
    """Replace the content of an open file."""
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def _local(name, mounted):
    """Return a cluster of kind or k3d, made if it is missing, and kept: making one takes a minute."""
    cluster = NAME if mounted is None else f"{NAME}-lake"
    folder = Path(tempfile.gettempdir()) / f"{cluster}-{name}"
    folder.mkdir(exist_ok=True)
    kubeconfig = folder / "kubeconfig"
    listing = {"kind": ["kind", "get", "clusters"], "k3d": ["k3d", "cluster", "list", "--no-headers"]}[name]
    listed = subprocess.run(listing, capture_output=True, text=True, check=False).stdout
    if cluster not in listed.split():
        made = {"kind": ["kind", "create", "cluster", "--name", cluster], "k3d": ["k3d", "cluster", "create", cluster]}
        try:
            said(*made[name], *(_mount(name, mounted, folder) if mounted else []), timeout=BUILD_S)
        except CommandFailedError as error:
            raise NoClusterError(f"{name} cannot make a cluster: {error}") from error
    shown = {
        "kind": ["kind", "get", "kubeconfig", "--name", cluster],
        "k3d": ["k3d", "kubeconfig", "get", cluster],
    }[name]
    kubeconfig.write_text(subprocess.run(shown, capture_output=True, text=True, check=True).stdout)
    load = {"kind": ("kind", "load", "docker-image", "--name"), "k3d": ("k3d", "image", "import", "-c")}[name]
    return Borrowed(name, kubeconfig, has_nodes=True, load_command=(*load, cluster))


def _mount(name, mounted, folder):
    """Return the flags that mount a folder of this machine in the nodes."""
    if name == "k3d":
        return ["--volume", f"{mounted}:{mounted}@all"]
    mount = {"hostPath": str(mounted), "containerPath": str(mounted)}
    config = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": "control-plane", "extraMounts": [mount]}],
    }
    (folder / "kind.yaml").write_text(yaml.safe_dump(config))
    return ["--config", str(folder / "kind.yaml")]


@contextlib.contextmanager
def own_server(folder):
    """Start etcd and an API server on loopback, with a separate token; end them by their handles."""
    missing = [name for name in ("etcd", "kube-apiserver") if not (folder / name).is_file()]
    if missing:
        raise NoClusterError(f"KUBEBUILDER_ASSETS={folder} has no {' and no '.join(missing)}")
    with tempfile.TemporaryDirectory(prefix="backfill-api-") as name, contextlib.ExitStack() as stack:
        work = Path(name)
        store, peer, port = unused_ports("127.0.0.1", 3)
        token = secrets.token_urlsafe(24)
        (work / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
        subprocess.run(["openssl", "genrsa", "-out", work / "sa.key", "2048"], check=True, capture_output=True)
        etcd = [
            folder / "etcd", "--data-dir", work / "etcd", "--unsafe-no-fsync", "--listen-peer-urls", f"http://127.0.0.1:{peer}",
            "--listen-client-urls", f"http://127.0.0.1:{store}", "--advertise-client-urls", f"http://127.0.0.1:{store}",
        ]  # fmt: skip
        api = [
            folder / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{store}", "--bind-address=127.0.0.1",
            f"--secure-port={port}", f"--cert-dir={work}/certs", f"--token-auth-file={work}/tokens.csv",
            f"--service-account-key-file={work}/sa.key", f"--service-account-signing-key-file={work}/sa.key",
            "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC",
            "--service-cluster-ip-range=10.0.0.0/24", "--disable-admission-plugins=ServiceAccount",
        ]  # fmt: skip
        for number, command in enumerate((etcd, api)):
            log = stack.enter_context((work / f"{number}.log").open("wb"))
            process = subprocess.Popen([str(part) for part in command], stdout=log, stderr=log)
            stack.callback(end, process)
        certificate = work / "certs" / "apiserver.crt"
        _until_ready(f"https://127.0.0.1:{port}/readyz", token)
        kubeconfig = work / "kubeconfig"
        kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1", "kind": "Config", "current-context": "test",
                    "clusters": [{"name": "test", "cluster": {
                        "server": f"https://127.0.0.1:{port}", "certificate-authority": str(certificate)}}],
                    "users": [{"name": "test", "user": {"token": token}}],
                    "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
                }
            )
        )  # fmt: skip
        yield kubeconfig


def end(process, within_s=10):
    """Terminate a process, and kill it if it does not end in time."""
    process.terminate()
    try:
        process.wait(timeout=within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _until_ready(url, token):
    """Poll until the server is ready; its answer is the only signal."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    deadline = time.monotonic() + UP_S
    while True:
        try:
            with urllib.request.urlopen(request, timeout=5, context=context):
                return
        except (urllib.error.URLError, OSError) as error:
            if time.monotonic() > deadline:
                raise NoClusterError(f"the API server did not start: {error}") from error
            time.sleep(0.2)


CRD = "backfills.backfill.dev"
_installed = {}
"""UID and generation of the CRD that this process installed, by kubeconfig: to install it takes half a second of CPU time."""


def _crd_version(api):
    """Return UID and generation of the installed CRD, read without the client's models; `None` if it is not installed."""
    from kubernetes import client

    group, version, plural = "apiextensions.k8s.io", "v1", "customresourcedefinitions"
    try:
        metadata = client.CustomObjectsApi(api).get_cluster_custom_object(group, version, plural, CRD)["metadata"]
    except client.ApiException as error:
        if error.status != 404:
            raise
        return None
    return metadata["uid"], metadata["generation"]


def _written(crds, crd):
    """Create or replace a CRD; `False` if someone else wrote it meanwhile, as the server's controllers do with its status."""
    from kubernetes import client

    name = crd["metadata"]["name"]
    try:
        listed = crds.list_custom_resource_definition(field_selector=f"metadata.name={name}").items
        if listed:
            crd["metadata"]["resourceVersion"] = listed[0].metadata.resource_version
            crds.replace_custom_resource_definition(name, crd)
        else:
            crds.create_custom_resource_definition(crd)
    except client.ApiException as error:
        if error.status == HTTPStatus.CONFLICT:
            return False
        raise
    return True


def install_crd(api, crd):
    """Install a CRD, and wait until the server uses it."""
    from kubernetes import client

    crds, name = client.ApiextensionsV1Api(api), crd["metadata"]["name"]
    deadline = time.monotonic() + 30
    while not _written(crds, crd):
        assert time.monotonic() < deadline, "someone else writes the CRD again and again"
    while not any(
        condition.type == "Established" and condition.status == "True"
        for condition in crds.read_custom_resource_definition(name).status.conditions or ()
    ):
        assert time.monotonic() < deadline, "the CRD is not established"
        time.sleep(0.05)


def prepare(kubeconfig, namespace):
    """Install the CRD of this tree unless it is installed, and make a namespace with the service accounts that no controller
    makes."""
    from kubernetes import client, config

    with config.new_client_from_config(str(kubeconfig)) as api:
        if _installed.get(kubeconfig) is None or _installed[kubeconfig] != _crd_version(api):
            install_crd(api, yaml.load((ROOT / "crds" / "backfills.yaml").read_text(), yaml.CSafeLoader))
            _installed[kubeconfig] = _crd_version(api)
        core = client.CoreV1Api(api)
        core.create_namespace({"metadata": {"name": namespace}})
        for account in ("default", "backfill-spark"):
            with contextlib.suppress(client.ApiException):
                core.create_namespaced_service_account(namespace, {"metadata": {"name": account}})


@contextlib.contextmanager
def prepared(cluster):
    """Give a namespace for one test; it is deleted afterwards, without waiting."""
    from kubernetes import client, config

    namespace = f"t-{secrets.token_hex(4)}"
    prepare(cluster.kubeconfig, namespace)
    try:
        yield namespace
    finally:
        with config.new_client_from_config(str(cluster.kubeconfig)) as api, contextlib.suppress(client.ApiException):
            client.CoreV1Api(api).delete_namespace(namespace)
