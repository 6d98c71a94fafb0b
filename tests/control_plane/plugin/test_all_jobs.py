"""`kubectl backfill pause --all-jobs` sets the switch, and waits until each running job has acknowledged it."""

import asyncio
import json
import re

from kubernetes import client, config
from support.cluster.fake_api import Fault
from support.endings import assert_ending
from support.operators.plugin import Plugin
from support.operators.rig import NAMESPACE, Rig

from backfill_api.names import ALL_JOBS_CONFIG_MAP, ALL_JOBS_KEY
from backfill_kubectl.cluster.api import ApiServer
from backfill_kubectl.cluster.kubeconfig import log_in
from backfill_kubectl.commands.page.cluster_jobs import ClusterJobs
from backfill_page.seen import PauseAllJobs, ResumeAllJobs

NOTE = "incident 4711"


def installed(rig, **data):
    """Create the ConfigMap and, on a real server, the Deployment of an operator that watches only this namespace."""
    body = {"metadata": {"name": ALL_JOBS_CONFIG_MAP}, "data": data}
    rig.store.create("configmaps", rig.namespace, body)
    kubeconfig = getattr(rig.api, "real_kubeconfig", None)
    if kubeconfig is None:
        return
    labels = {"app.kubernetes.io/name": "backfill-operator"}
    watched = [{"name": "BACKFILL_OPERATOR_NAMESPACES", "value": rig.namespace}]
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "operator", "image": "none", "env": watched}]},
    }
    deployment = {
        "metadata": {"name": "operator", "labels": labels},
        "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod},
    }
    with config.new_client_from_config(str(kubeconfig)) as api:
        client.AppsV1Api(api).create_namespaced_deployment(rig.namespace, deployment)


def switch(rig):
    """Return the stored switch."""
    return json.loads(rig.store.get("configmaps", rig.namespace, ALL_JOBS_CONFIG_MAP)["data"][ALL_JOBS_KEY])


def create(rig, name, **spec):
    """Create a job with its own target."""
    rig.create(name, target={"type": "Delta", "delta": {"path": f"/data/{name}"}}, **spec)


async def running(rig, *names):
    """Start an operator of this namespace, and wait until these jobs run."""
    rig.start(lease_namespace=rig.namespace)
    await rig.until(lambda: all(rig.holds("Running", name) for name in names))


class TestAPauseOfAllJobs:
    """Each running job acknowledges it, and returns to its own state afterwards."""

    async def test_each_running_job_has_a_line_and_all_have_a_summary(self, rigs, tmp_path):
        """Jobs without a driver are counted: they have nothing to acknowledge."""
        async with rigs(start=False) as rig:
            installed(rig)
            create(rig, "orders")
            create(rig, "items")
            create(rig, "idle", suspend=True)
            await running(rig, "orders", "items")
            kubectl, where = Plugin(rig, tmp_path), ("--operator-namespace", rig.namespace)

            paused = (await kubectl.done("pause", "--all-jobs", "--reason", NOTE, "--by", "anna", *where)).splitlines()

            line = (
                r"paused at \d+ % \([\d,]+ rows?\); changes are paused too\. Acknowledged at epoch \d+ in \d+\.\d s\."
            )
            assert sorted(each.partition(": ")[0] for each in paused[:2]) == [
                f"{rig.namespace}/items",
                f"{rig.namespace}/orders",
            ]
            assert all(re.fullmatch(line, each.partition(": ")[2]) for each in paused[:2]), paused
            undo = f"Undo: kubectl backfill resume --all-jobs --operator-namespace {rig.namespace}"
            assert re.fullmatch(
                rf"all jobs are paused: 2 running jobs acknowledged in \d+\.\d s, 1 without a driver is held\. {undo}",
                paused[2],
            )
            assert {"enabled": True, "by": "anna", "note": NOTE} | switch(rig) == switch(rig)
            assert [rig.double(name).progress.paused for name in ("orders", "items")] == ["All", "All"]

            resumed = await kubectl.done("resume", "--all-jobs", *where)

            assert resumed.count(": running at ") == 2
            assert "the pause of all jobs is lifted: 2 running jobs acknowledged" in resumed
            assert [rig.double(name).progress.paused for name in ("orders", "items")] == [None, None]

    async def test_deeply_nested_object_of_another_namespace_prevents_no_pause(self, tmp_path):
        """An API server stores 4,000 levels. The command ended with a RecursionError, so one user could keep all from pausing."""
        async with Rig(start=False) as rig:
            installed(rig)
            rig.api.instead['"@deep@"'] = '{"a":' * 4000 + "1" + "}" * 4000
            create(rig, "hostile", driver={"template": {"metadata": "@deep@"}})
            create(rig, "orders")
            await running(rig, "orders")

            paused = await Plugin(rig, tmp_path).done("pause", "--all-jobs", "--operator-namespace", rig.namespace)

            assert "all jobs are paused: 1 running job acknowledged" in paused

    async def test_page_pauses_and_resumes_all_jobs(self, rigs, tmp_path):
        """The list shows the reason and the claimed author; the answer names the command that undoes it."""
        async with rigs(start=False) as rig:
            installed(rig)
            create(rig, "orders")
            create(rig, "items")
            await running(rig, "orders", "items")
            login = log_in(Plugin(rig, tmp_path).kubeconfig, None, rig.namespace)
            source = ClusterJobs(ApiServer(login), rig.namespace, everywhere=False, operator_namespace=rig.namespace)

            before = (await asyncio.to_thread(source.jobs)).switch
            paused = await asyncio.to_thread(source.act_on_all, PauseAllJobs("incident 4711"))
            during = (await asyncio.to_thread(source.jobs)).switch
            states = [rig.double(name).progress.paused for name in ("orders", "items")]
            resumed = await asyncio.to_thread(source.act_on_all, ResumeAllJobs("solved"))

            assert (before.paused, before.lack) == (False, "")
            assert paused.ok, paused
            assert paused.text.startswith("pause --all-jobs: all jobs are paused: 2 running jobs acknowledged in")
            assert f"Undo: kubectl backfill resume --all-jobs --operator-namespace {rig.namespace}" in paused.text
            assert during.paused
            assert "incident 4711" in during.why
            assert states == ["All", "All"]
            assert resumed.ok, resumed
            assert not (await asyncio.to_thread(source.jobs)).switch.paused

    async def test_job_that_its_spec_pauses_stays_paused_after_the_resume(self, tmp_path):
        """The switch hides its own state, and does not change it."""
        async with Rig(start=False) as rig:
            installed(rig)
            create(rig, "orders", desiredState="Paused")
            rig.start(lease_namespace=NAMESPACE)
            await rig.until(lambda: rig.holds("Paused", "orders"))
            kubectl = Plugin(rig, tmp_path)
            await kubectl.done("pause", "--all-jobs", "--operator-namespace", NAMESPACE)

            resumed = await kubectl.done("resume", "--all-jobs", "--operator-namespace", NAMESPACE)

            assert re.search(r"shop/orders: paused at .*; changes continue\. Acknowledged", resumed)
            assert rig.double().progress.paused == "History"

    async def test_resume_of_one_job_is_recorded_while_all_are_paused(self, tmp_path):
        """The switch takes precedence, so waiting for the driver would be in vain."""
        async with Rig(start=False) as rig:
            installed(rig)
            create(rig, "orders")
            await running(rig, "orders")
            kubectl = Plugin(rig, tmp_path)
            await kubectl.done("pause", "--all-jobs", "--operator-namespace", NAMESPACE, "--by", "anna", "--note", NOTE)

            resumed = await kubectl.done("resume", "orders")

            assert f"recorded, because all jobs are paused by anna (claimed): {NOTE}" in resumed
            assert "resume --all-jobs" in resumed
            assert "Acknowledged" not in resumed

    async def test_json_has_an_entry_for_each_job(self, tmp_path):
        """Programs read fields, not sentences."""
        async with Rig(start=False) as rig:
            installed(rig)
            create(rig, "orders")
            create(rig, "idle", suspend=True)
            await running(rig, "orders")
            await rig.until_holds("Suspended", "idle")
            words = ("pause", "--all-jobs", "--operator-namespace", NAMESPACE, "-o", "json")

            answer = json.loads(await Plugin(rig, tmp_path).done(*words))

            assert answer["enabled"] is True
            assert [(job["job"], job["acknowledged"]) for job in answer["jobs"]] == [("shop/orders", True)]
            assert answer["withoutDriver"] == ["shop/idle"]

    async def test_resume_without_a_pause_writes_nothing(self, tmp_path):
        """A script may run it twice."""
        async with Rig(start=False) as rig:
            installed(rig)

            resumed = await Plugin(rig, tmp_path).done("resume", "--all-jobs", "--operator-namespace", NAMESPACE)

            assert resumed == "no pause of all jobs is in force; nothing was changed"
            assert ALL_JOBS_KEY not in rig.store.get("configmaps", NAMESPACE, ALL_JOBS_CONFIG_MAP)["data"]

    async def test_resume_of_a_pause_by_the_chart_names_its_value(self, tmp_path):
        """The next upgrade would pause all jobs again."""
        async with Rig(start=False) as rig:
            installed(rig, **{ALL_JOBS_KEY: '{"enabled": true, "by": "the chart"}'})

            resumed = await Plugin(rig, tmp_path)("resume", "--all-jobs", "--operator-namespace", NAMESPACE)

            assert resumed.exit_code == 0
            assert "set pauseAll.enabled: false in the chart's values" in resumed.stderr
            assert switch(rig)["enabled"] is False


class TestWhatIsMissing:
    """The command names jobs, verbs and objects."""

    async def test_job_that_has_not_acknowledged_is_named(self, tmp_path):
        """The switch stays set, so a late driver still pauses."""
        async with Rig(start=False, double={"silent": True}) as rig:
            installed(rig)
            create(rig, "orders")
            await running(rig, "orders")
            words = ("pause", "--all-jobs", "--operator-namespace", NAMESPACE, "--timeout", "1")

            result = await Plugin(rig, tmp_path)(*words)

            assert_ending(result, "NotAcknowledged")
            assert "1 of 1 running jobs have not acknowledged in 1 s: shop/orders: " in result.stderr
            assert "all jobs are paused" not in result.stdout
            assert switch(rig)["enabled"] is True

    async def test_missing_right_has_its_verb_and_resource(self, tmp_path):
        """Nothing is written."""
        async with Rig(start=False) as rig:
            installed(rig)
            rig.api.faults.append(Fault("answer", verb="patch", plural="configmaps", status=403, reason="Forbidden"))

            result = await Plugin(rig, tmp_path)("pause", "--all-jobs", "--operator-namespace", NAMESPACE)

            assert_ending(result, "Forbidden")
            assert f"you may not patch configmaps {ALL_JOBS_CONFIG_MAP} in namespace {NAMESPACE}" in result.stderr

    async def test_switch_is_set_without_the_right_to_list_jobs(self, tmp_path):
        """An emergency does not wait for a role; the output promises no acknowledgement."""
        async with Rig(start=False) as rig:
            installed(rig)
            rig.api.faults.append(
                Fault("answer", verb="list", plural="backfills", status=403, reason="Forbidden", times=99)
            )

            result = await Plugin(rig, tmp_path)("pause", "--all-jobs", "--operator-namespace", NAMESPACE)

            assert result.exit_code == 0
            assert "you may not list Backfills, so no acknowledgement is awaited" in result.stderr
            assert result.stdout.startswith("recorded, not awaited.")
            assert switch(rig)["enabled"] is True

    async def test_missing_operator_names_the_option(self, tmp_path):
        """Its namespace is the usual mistake."""
        async with Rig(start=False) as rig:
            result = await Plugin(rig, tmp_path)("pause", "--all-jobs")

            assert_ending(result, "BackfillNotFound")
            assert "configmaps backfill-all-jobs in namespace backfill-system" in result.stderr
            assert "--operator-namespace" in result.stderr

    async def test_one_job_or_all_jobs_must_be_named(self, tmp_path):
        """A forgotten name must not pause everything."""
        async with Rig(start=False) as rig:
            kubectl = Plugin(rig, tmp_path)

            none = [await kubectl(command) for command in ("pause", "resume")]
            both = await kubectl("pause", "orders", "--all-jobs")

            assert all("give the NAME of a Backfill, or --all-jobs" in result.stderr for result in none)
            assert "leave NAME and --how out" in both.stderr
            assert {result.exit_code for result in (*none, both)} == {2}
