"""`kubectl backfill` shows Backfills, their drivers' logs and events, and the installation."""

import json
import zipfile

import pytest
import yaml
from support.cluster.fake_api import Fault
from support.endings import assert_ending
from support.operators.plugin import Plugin
from support.operators.rig import Rig

SECRET = "hunter2-planted"
WATCHES = 3
"""Open watches of an operator: both kinds, and the ConfigMap that pauses all jobs."""


class TestList:
    """All Backfills of a namespace, in one table."""

    async def test_list_shows_each_job_with_its_state(self, rigs, tmp_path):
        """The failed one comes first."""
        async with rigs() as rig:
            rig.create("orders")
            rig.create("customers", backoffLimit=0, target={"type": "Delta", "delta": {"path": "/data/c"}})
            await rig.until_holds("Running", "orders")
            await rig.until_holds("Running", "customers")
            rig.kubelet.finish(rig.driver("customers"), exit_code=23)
            await rig.until_phase("Failed", "customers")

            lines = (await Plugin(rig, tmp_path).done("list")).splitlines()

            assert lines[0].split() == ["NAMESPACE/NAME", "STATE", "%", "ROWS", "ROWS/S", "LAG", "ETA", "WHY"]
            assert lines[1].startswith(f"{rig.namespace}/customers")
            assert "✖ Failed" in lines[1]
            assert lines[2].startswith(f"{rig.namespace}/orders")
            assert "▶ Running" in lines[2]
            assert lines[3] == "2 jobs: 1 needs a person, 1 runs"

    async def test_formats_are_for_programs(self, tmp_path):
        """As kubectl prints them, without managed fields."""
        async with Rig(start=False) as rig:
            rig.create("orders")
            await rig.until(rig.get)
            kubectl = Plugin(rig, tmp_path)

            listed = json.loads(await kubectl.done("list", "-o", "json"))

            assert [item["metadata"]["name"] for item in listed["items"]] == ["orders"]
            assert "managedFields" not in listed["items"][0]["metadata"]
            assert yaml.safe_load(await kubectl.done("get", "orders", "-o", "yaml"))["metadata"]["name"] == "orders"
            assert await kubectl.done("get", "-o", "name") == "backfill.backfill.dev/orders"

    async def test_empty_namespace_has_a_message(self, tmp_path):
        """An empty table would look like a fault."""
        async with Rig(start=False) as rig:
            assert await Plugin(rig, tmp_path).done("list") == f"no Backfills in namespace {rig.namespace}"

    async def test_long_list_is_read_in_pages(self, tmp_path, monkeypatch):
        """Ten thousand objects in one answer are 160 MB."""
        monkeypatch.setattr("backfill_kubectl.cluster.api.PAGE_SIZE", 2)
        async with Rig(start=False) as rig:
            for number in range(5):
                rig.create(f"job-{number}")
            await rig.until(lambda: rig.get("job-4"))

            lines = (await Plugin(rig, tmp_path).done("list")).splitlines()

            assert lines[-1] == "5 jobs: 5 wait"


class TestGet:
    """One Backfill: its block, once or after each change."""

    async def test_get_shows_the_block_with_its_pods(self, rigs, tmp_path):
        """The tree has the attempt and the driver."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")

            shown = await Plugin(rig, tmp_path).done("get", "orders")

            assert f"{rig.namespace}/orders" in shown
            assert "Running" in shown.splitlines()[0]
            assert "attempt 1" in shown
            assert "orders-1-driver" in shown

    async def test_watch_ends_with_the_job_and_names_the_next_command(self, rigs, tmp_path):
        """Without a terminal it prints a line at each change."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            kubectl = Plugin(rig, tmp_path)
            watching = kubectl.start("get", "orders", "-w")
            await rig.until(lambda: "backfill.dev/watched-until" in rig.get()["metadata"].get("annotations", {}))

            rig.kubelet.finish(rig.driver())
            result = await watching

            assert result.exit_code == 0, result.output
            assert f"{rig.namespace}/orders  Succeeded" in result.stdout.splitlines()[-1]
            assert f"Succeeded. Next: kubectl backfill receipt {rig.namespace}/orders" in result.stderr

    async def test_watch_as_json_has_one_object_for_each_change(self, tmp_path):
        """The fields are those of the status."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            watching = Plugin(rig, tmp_path).start("get", "orders", "-w", "-o", "json")
            await rig.until(lambda: "backfill.dev/watched-until" in rig.get()["metadata"].get("annotations", {}))

            rig.kubelet.finish(rig.driver())
            objects = [json.loads(line) for line in (await watching).stdout.splitlines()]

            assert objects[-1]["phase"] == "Succeeded"
            assert {each["name"] for each in objects} == {"orders"}

    async def test_watch_survives_a_restart_of_the_api_server(self, tmp_path):
        """It reads the object again after a broken or an expired watch."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            watching = Plugin(rig, tmp_path).start("get", "orders", "-w")
            await rig.until(lambda: rig.api.open_watches > WATCHES)
            rig.api.forget()

            rig.kubelet.finish(rig.driver())
            result = await watching

            assert "Succeeded" in result.stdout.splitlines()[-1]

    async def test_watch_of_a_deleted_job_ends(self, tmp_path):
        """The exit code is that of a missing Backfill."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            watching = Plugin(rig, tmp_path).start("get", "orders", "-w")
            await rig.until(lambda: "backfill.dev/watched-until" in rig.get()["metadata"].get("annotations", {}))

            rig.delete()
            result = await watching

            assert result.exit_code == 4
            assert f"{rig.namespace}/orders was deleted." in result.stderr


class TestRights:
    """A missing right is named with verb and resource."""

    @pytest.mark.parametrize(
        ("words", "verb", "denied"),
        [
            (("list",), "list", "list backfills.backfill.dev in namespace shop"),
            (("get", "orders"), "get", "get backfills.backfill.dev orders in namespace shop"),
            (("pause", "orders"), "patch", "patch backfills.backfill.dev orders in namespace shop"),
        ],
        ids=["list", "get", "patch"],
    )
    async def test_denied_request_is_named(self, tmp_path, words, verb, denied):
        """The message is that of `kubectl auth can-i`."""
        async with Rig(start=False) as rig:
            rig.create()
            rig.api.faults.append(Fault("answer", verb=verb, plural="backfills", status=403, reason="Forbidden"))

            result = await Plugin(rig, tmp_path)(*words)

            assert_ending(result, "Forbidden")
            assert result.exit_code == 6
            assert f"error: Forbidden: you may not {denied}" in result.stderr

    async def test_watch_without_the_right_to_patch_reports_it(self, tmp_path):
        """It shows data of ten seconds; pods that may not be listed are missing, too."""
        from backfill_kubectl.cluster.api import ApiServer
        from backfill_kubectl.cluster.job_watch import JobWatch
        from backfill_kubectl.cluster.kubeconfig import log_in
        from backfill_kubectl.commands.options import now
        from backfill_kubectl.decisions.stored import read_stored

        async with Rig(start=False) as rig:
            rig.create()
            for verb, plural in (("patch", "backfills"), ("list", "pods")):
                rig.api.faults.append(
                    Fault("answer", verb=verb, plural=plural, status=403, reason="Forbidden", times=99)
                )
            api = ApiServer(log_in(rig.api.kubeconfig(tmp_path), None, "shop"))

            with JobWatch(api, read_stored(rig.get()), now) as watch:
                await rig.until(lambda: len(watch.seen.limits) == 2)

            assert "you may not patch backfills.backfill.dev" in watch.seen.limits[0]
            assert watch.seen.limits[1] == "no pods: you may not list pods in namespace shop"

    async def test_unreachable_server_is_named(self, tmp_path):
        """The address is that of the kubeconfig."""
        async with Rig(start=False) as rig:
            kubectl = Plugin(rig, tmp_path)
            url = rig.api.url
        result = await kubectl("list")

        assert_ending(result, "ApiServerSilent")
        assert result.exit_code == 66
        assert f"{url} does not answer" in result.stderr

    async def test_answer_of_a_proxy_is_named(self, tmp_path):
        """A login page is no list."""
        page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"
        async with Rig(start=False) as rig:
            rig.api.faults.append(Fault("raw", verb="list", plural="backfills", raw=page))

            result = await Plugin(rig, tmp_path)("list")

            assert_ending(result, "ApiServerSilent")
            assert result.exit_code == 66
            assert "the answer is not JSON; is there a proxy?" in result.stderr

    async def test_cluster_without_the_crd_is_named(self, tmp_path):
        """An API server answers with plain text if it serves no such resource."""
        missing = (
            b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 19\r\n\r\n404 page not found\n"
        )
        async with Rig(start=False) as rig:
            rig.api.faults.append(Fault("raw", verb="list", plural="backfills", raw=missing))

            result = await Plugin(rig, tmp_path)("list")

            assert_ending(result, "CrdMissing")
            assert "the cluster does not serve backfill.dev/" in result.stderr


class TestEventsAndLogs:
    """The past of a Backfill and its driver."""

    async def test_events_are_listed_with_their_object(self, rigs, tmp_path):
        """The launch of an attempt is one."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            await rig.until(lambda: "Launching" in rig.events())

            shown = await Plugin(rig, tmp_path).done("events", "orders")

            assert "Launching" in shown
            assert "Backfill/orders" in shown

    async def test_log_of_a_job_without_an_attempt_is_refused(self, tmp_path):
        """There is no pod yet."""
        async with Rig(start=False) as rig:
            rig.create()
            await rig.until(rig.get)

            result = await Plugin(rig, tmp_path)("logs", "orders")

            assert result.exit_code == 4
            assert "had no attempt yet" in result.stderr


class TestReport:
    """A bundle for a ticket."""

    async def test_bundle_has_the_object_and_no_secret(self, rigs, tmp_path):
        """A secret in an annotation is removed; an unreadable part has the reason instead."""
        async with rigs() as rig:
            applied = json.dumps({"spec": {"driver": {"env": [{"name": "STORE_PASSWORD", "value": SECRET}]}}})
            rig.create(annotations={"example.org/applied": applied, "example.org/note": f"token={SECRET}"})
            await rig.until_holds("Running")
            target = tmp_path / "bundle.zip"

            await Plugin(rig, tmp_path).done("report", "orders", "--file", target)

            with zipfile.ZipFile(target) as bundle:
                texts = {name: bundle.read(name).decode() for name in bundle.namelist()}
            assert {"README.txt", "backfill.yaml", "events.json", "pods.yaml", "doctor.txt"} <= set(texts)
            assert not [name for name, text in texts.items() if SECRET in text]
            assert yaml.safe_load(texts["backfill.yaml"])["metadata"]["name"] == "orders"
            assert "orders-1-driver" in texts["pods.yaml"]


class TestDoctor:
    """One page about the installation."""

    async def test_page_has_a_line_for_each_part(self, tmp_path):
        """A part that cannot be read does not hide the others."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")

            checks = json.loads(await Plugin(rig, tmp_path).done("doctor", "-o", "json"))

            verdicts = {check["title"]: check["verdict"] for check in checks}
            assert verdicts["drivers"] == "ok"
            assert verdicts["jobs"] == "ok"
            assert "local paths" in verdicts
            assert {"client", "API server", "CRD", "operator", "leader"} <= set(verdicts)

    async def test_crd_of_this_tree_has_all_fields(self, real, tmp_path):
        """The schema is read where every user may read it."""
        async with real(start=False) as rig:
            checks = json.loads(await Plugin(rig, tmp_path).done("doctor", "-o", "json"))

            assert next(check for check in checks if check["title"] == "CRD")["verdict"] == "ok"
