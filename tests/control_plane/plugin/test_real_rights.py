"""A user with few rights, an older CRD, and no CRD, on a real API server."""

import asyncio
import json
import subprocess
import uuid

import pytest
import yaml
from kubernetes import client, config
from support.cluster.harness import tool
from support.endings import assert_ending
from support.operators.plugin import invoke
from support.page.serving import serving

from backfill_api.names import ALL_JOBS_CONFIG_MAP
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.kubeconfig import log_in
from backfill_kubectl.commands.page.cluster_jobs import ClusterJobs


def kubeconfig_of(rig, folder, rules):
    """Return the kubeconfig of a new account with these rules."""
    name = f"reader-{uuid.uuid4().hex[:6]}"
    admin = rig.api.real_kubeconfig
    with config.new_client_from_config(str(admin)) as api:
        core, rbac = client.CoreV1Api(api), client.RbacAuthorizationV1Api(api)
        core.create_namespaced_service_account(rig.namespace, {"metadata": {"name": name}})
        rbac.create_namespaced_role(rig.namespace, {"metadata": {"name": name}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": rig.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        rbac.create_namespaced_role_binding(
            rig.namespace, {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
        )
        token = core.create_namespaced_service_account_token(name, rig.namespace, {"spec": {}}).status.token
    document = yaml.safe_load(admin.read_text())
    document["users"] = [{"name": name, "user": {"token": token}}]
    document["contexts"] = [{"name": name, "context": {"cluster": document["clusters"][0]["name"], "user": name}}]
    document["current-context"] = name
    path = folder / name
    path.write_text(json.dumps(document))
    return path


class TestRights:
    """The API server decides; the command names the verb and the resource."""

    async def test_buttons_of_a_reader_name_the_missing_verb(self, real, tmp_path):
        """The page asks the API server before a click (SelfSubjectAccessReview), and writes nothing to find out."""
        async with real() as rig:
            rig.create()
            await rig.until_holds("Running")
            rules = [{"apiGroups": ["backfill.dev"], "resources": ["backfills"], "verbs": ["get", "list", "watch"]}]
            key, place = f"{rig.namespace}/orders", f"backfills.backfill.dev in namespace {rig.namespace}"
            readers, owners = (
                ClusterJobs(ApiServer(log_in(file, None, rig.namespace)), rig.namespace, everywhere=False)
                for file in (kubeconfig_of(rig, tmp_path, rules), rig.api.real_kubeconfig)
            )

            assert (await asyncio.to_thread(readers.job, key)).forbidden == f"patch {place}"
            assert (await asyncio.to_thread(owners.job, key)).forbidden == ""
            with serving(readers) as page:
                await asyncio.to_thread(page.open)
                text = (await asyncio.to_thread(page.get, f"/job?key={key}")).text
            assert 'value="pause" disabled' in text
            assert f"You may not patch {place}." in text

    async def test_reader_may_list_and_may_not_pause(self, real, tmp_path):
        """The message has the verb that lacks; nothing is written."""
        async with real(start=False) as rig:
            rig.create()
            await rig.until(rig.get)
            reader = kubeconfig_of(
                rig,
                tmp_path,
                [{"apiGroups": ["backfill.dev"], "resources": ["backfills"], "verbs": ["get", "list", "watch"]}],
            )

            listed = await asyncio.to_thread(invoke, reader, rig.namespace, "list")
            shown = await asyncio.to_thread(invoke, reader, rig.namespace, "get", "orders")
            paused = await asyncio.to_thread(invoke, reader, rig.namespace, "pause", "orders")

            assert listed.exit_code == 0, listed.output
            assert f"no pods: you may not list pods in namespace {rig.namespace}" in " ".join(shown.output.split())
            assert paused.exit_code == 6
            assert f"you may not patch backfills.backfill.dev orders in namespace {rig.namespace}" in paused.stderr
            assert "desiredState: Paused" not in yaml.safe_dump(rig.get()["spec"])

    async def test_account_without_rights_gets_the_verb(self, real, tmp_path):
        """`doctor` still shows what every user may read."""
        async with real(start=False) as rig:
            stranger = kubeconfig_of(rig, tmp_path, [])

            listed = await asyncio.to_thread(invoke, stranger, rig.namespace, "list")
            doctor = await asyncio.to_thread(invoke, stranger, rig.namespace, "doctor", "-o", "json")

            assert listed.exit_code == 6
            assert f"you may not list backfills.backfill.dev in namespace {rig.namespace}" in listed.stderr
            verdicts = {check["title"]: check["verdict"] for check in json.loads(doctor.stdout)}
            assert (verdicts["CRD"], verdicts["operator"], verdicts["jobs"]) == ("ok", "unknown", "unknown")

    async def test_right_to_patch_the_switch_is_enough_to_pause_all_jobs(self, real, tmp_path):
        """Without the right to list all namespaces, only the jobs of one are awaited, and the output says so."""
        async with real(start=False) as rig:
            rig.store.create("configmaps", rig.namespace, {"metadata": {"name": ALL_JOBS_CONFIG_MAP}})
            reads = {"apiGroups": ["backfill.dev"], "resources": ["backfills"], "verbs": ["get", "list"]}
            names = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [ALL_JOBS_CONFIG_MAP]}
            words = ("pause", "--all-jobs", "--operator-namespace", rig.namespace)
            allowed = kubeconfig_of(rig, tmp_path, [reads, names | {"verbs": ["patch"]}])
            reader = kubeconfig_of(rig, tmp_path, [reads, names | {"verbs": ["get"]}])

            refused = await asyncio.to_thread(invoke, reader, rig.namespace, *words)
            paused = await asyncio.to_thread(invoke, allowed, rig.namespace, *words)

            assert refused.exit_code == 6
            message = f"you may not patch configmaps {ALL_JOBS_CONFIG_MAP} in namespace {rig.namespace}"
            assert message in refused.stderr
            assert paused.exit_code == 0, paused.output
            assert f"only those of {rig.namespace} are awaited" in paused.stderr
            assert "all jobs are paused: none runs" in paused.stdout


class TestFields:
    """The API server rejects a field that its CRD does not define, instead of dropping it."""

    async def test_unknown_field_is_rejected_and_nothing_is_written(self, real, tmp_path):
        """An older CRD would drop the end of a limit, and the limit would stay for ever."""
        from backfill_api.resources import BACKFILLS
        from backfill_kubectl.cluster.api import ApiServer
        from backfill_kubectl.cluster.kubeconfig import log_in
        from backfill_kubectl.errors import VersionTooOldError

        async with real(start=False) as rig:
            rig.create()
            await rig.until(rig.get)
            api = ApiServer(log_in(rig.api.real_kubeconfig, None, rig.namespace))
            change = {"spec": {"throttle": {"rowsPerSecond": 5, "novelty": "x"}}}

            with pytest.raises(VersionTooOldError, match="novelty") as refused:
                await asyncio.to_thread(api.patch, BACKFILLS, rig.namespace, "orders", change)

            assert_ending(refused.value, "VersionTooOld")
            assert "rowsPerSecond" not in rig.store.get("backfills", rig.namespace, "orders")["spec"].get(
                "throttle", {}
            )

    async def test_concurrent_write_is_not_lost(self, real, tmp_path):
        """A stale version is a conflict."""
        from backfill_api.resources import BACKFILLS
        from backfill_kubectl.cluster.api import ApiServer
        from backfill_kubectl.cluster.kubeconfig import log_in
        from backfill_kubectl.errors import WriteConflictError

        async with real(start=False) as rig:
            stale = rig.create()["metadata"]["resourceVersion"]
            rig.edit(throttle={"rowsPerSecond": 7})
            api = ApiServer(log_in(rig.api.real_kubeconfig, None, rig.namespace))
            change = {"metadata": {"resourceVersion": stale}, "spec": {"throttle": {"rowsPerSecond": 5}}}

            with pytest.raises(WriteConflictError):
                await asyncio.to_thread(api.patch, BACKFILLS, rig.namespace, "orders", change)

            await asyncio.to_thread(
                invoke, rig.api.real_kubeconfig, rig.namespace, "suspend", "orders", "--timeout", "0"
            )
            spec = rig.store.get("backfills", rig.namespace, "orders")["spec"]
            assert (spec["throttle"]["rowsPerSecond"], spec["suspend"]) == (7, True)


class TestThePlugin:
    """kubectl finds the command by its name."""

    async def test_kubectl_runs_the_plugin(self, real, tmp_path):
        """An executable `kubectl-backfill` on the path is `kubectl backfill`."""
        import os
        import sys

        if tool("kubectl") is None:
            pytest.skip("kubectl is not installed")
        async with real(start=False) as rig:
            rig.create()
            await rig.until(rig.get)
            program = tmp_path / "kubectl-backfill"
            program.write_text(f"#!{sys.executable}\nfrom backfill_kubectl.entry import main\nmain()\n")
            program.chmod(0o755)
            environment = os.environ | {
                "PATH": f"{tmp_path}:{os.environ['PATH']}",
                "KUBECONFIG": str(rig.api.real_kubeconfig),
            }
            command = [tool("kubectl"), "backfill", "list", "-n", rig.namespace, "-o", "name"]

            done = await asyncio.to_thread(
                subprocess.run, command, env=environment, capture_output=True, text=True, check=False
            )

            assert done.stdout.strip() == "backfill.backfill.dev/orders", done.stderr

    async def test_completion_offers_names_of_the_namespace(self, real, tmp_path, monkeypatch):
        """kubectl asks `kubectl_complete-backfill`."""
        from backfill_kubectl.__main__ import cli
        from backfill_kubectl.commands.about import completions_of

        async with real(start=False) as rig:
            rig.create()
            await rig.until(rig.get)
            where = ["--kubeconfig", str(rig.api.real_kubeconfig), "-n", rig.namespace]

            assert await asyncio.to_thread(completions_of, cli, ["pause", *where, "ord"]) == ["orders", ":4"]
