"""`kubectl backfill` changes a Backfill, waits for the acknowledgement of operator and driver, and reports the state."""

import json
import re

import yaml
from support.cluster.fake_api import Fault
from support.endings import assert_ending
from support.operators.plugin import Plugin
from support.operators.rig import Rig

from backfill_api.names import OVERRIDE_ANNOTATION, STATE_ANNOTATION
from backfill_api.status.ending import Ending
from backfill_api.status.plan import Plan

ARGO = {"argocd.argoproj.io/tracking-id": "jobs:backfill.dev/Backfill:shop/orders"}


def current(rig):
    """Return the object at the server; the mirror of a real one is late."""
    return rig.store.get("backfills", rig.namespace, "orders")


def written_by_users(rig):
    """Return what a user's command could change; the operator writes the status of a running job at any time."""
    document = current(rig)
    return document["spec"], document["metadata"].get("annotations", {})


def override(rig):
    """Return the override annotation of the object; `None` without one."""
    text = current(rig)["metadata"].get("annotations", {}).get(OVERRIDE_ANNOTATION)
    return None if text is None else json.loads(text)


class TestCommandsOfARunningJob:
    """Each command ends when the driver has confirmed it."""

    async def test_pause_and_resume_are_acknowledged_by_the_driver(self, rigs, tmp_path):
        """The output has the state, the proof, and the command that undoes it."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            kubectl = Plugin(rig, tmp_path)

            paused = await kubectl.done("pause", "orders", "--note", "incident 4711")

            state = r"paused at \d+ % \([\d,]+ rows?\); changes continue\. Acknowledged at epoch \d+ in \d+\.\d s\."
            undo = rf"Undo: kubectl backfill resume orders -n {rig.namespace}"
            assert re.fullmatch(rf"{rig.namespace}/orders: {state} {undo}", paused)
            assert rig.double().progress.paused == "History"
            assert current(rig)["spec"]["desiredState"] == "Paused"
            resumed = await kubectl.done("resume", "orders")
            assert ": running at " in resumed
            assert rig.double().progress.paused is None
            assert override(rig) is None

    async def test_rescale_is_acknowledged_with_the_width_before_it_as_undo(self, rigs, tmp_path):
        """The spec has the new width, and the attempt stays."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            kubectl = Plugin(rig, tmp_path)

            first = await kubectl.done("rescale", "orders", "8")

            assert "reading at most 8 pieces at a time at " in first
            assert first.endswith(f"Undo: kubectl backfill rescale orders 2 -n {rig.namespace}")
            assert rig.double().progress.max_in_flight == 8
            strategy = current(rig)["spec"]["strategy"]
            assert [member["maxInFlight"] for member in strategy.values() if isinstance(member, dict)] == [8]
            assert rig.attempt() == 1

    async def test_executors_of_a_running_job_change_and_the_next_attempt_starts_with_them(self, rigs, tmp_path):
        """Also with an override, which its driver takes for the number of the spec."""
        async with rigs() as rig:
            rig.create(executor={"instances": 2})
            await rig.until_holds("Running")
            kubectl = Plugin(rig, tmp_path)

            first = await kubectl.done(
                "rescale", "orders", "--executors", "3", "--split-seconds", "9", "--how", "override"
            )

            assert ": reading splits of about 9 s, on 3 executors at " in first
            undo = f"Undo: kubectl backfill rescale orders --split-seconds 4 --executors 2 -n {rig.namespace}"
            assert first.endswith(undo)
            assert override(rig) == {"splitTargetSeconds": 9, "executors": 3}
            assert (rig.double().progress.executors, rig.double().progress.split_target_seconds) == (3, 9)
            assert rig.condition("EditPending") is None
            assert rig.attempt() == 1
            await kubectl.done("retry", "orders")
            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))
            data = rig.store.get("configmaps", rig.namespace, "orders-2-driver")["data"]
            assert "spark.executor.instances=3\n" in data["spark-defaults.conf"]
            assert yaml.safe_load(data["backfill.yaml"])["spec"]["executor"] == {"instances": 3}

    async def test_executors_of_a_driver_that_works_alone_are_refused(self, rigs, tmp_path):
        """Nothing is written."""
        async with rigs() as rig:
            rig.create(executor={"instances": 0})
            await rig.until_holds("Running")
            before = written_by_users(rig)

            done = await Plugin(rig, tmp_path)("rescale", "orders", "8", "--executors", "3")

            assert_ending(done, "CommandRefused")
            assert "executors cannot change: executor.instances is 0" in done.stderr
            assert written_by_users(rig) == before

    async def test_throttle_is_acknowledged_with_the_limit_before_it_as_undo(self, rigs, tmp_path):
        """A second throttle names the first one's limit."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            kubectl = Plugin(rig, tmp_path)

            first = await kubectl.done("throttle", "orders", "50k")
            second = await kubectl.done("throttle", "orders", "none")

            assert "limited to 50,000 rows/s at " in first
            assert first.endswith(f"Undo: kubectl backfill throttle orders none -n {rig.namespace}")
            assert "running without a limit at " in second
            assert second.endswith(f"Undo: kubectl backfill throttle orders 50000 -n {rig.namespace}")
            assert rig.double().progress.throttle_rows_per_second is None

    async def test_limit_with_an_end_leaves_the_spec(self, rigs, tmp_path):
        """The driver confirms the limit with its end."""
        async with rigs() as rig:
            rig.create(throttle={"rowsPerSecond": 7})
            await rig.until_holds("Running")

            limited = await Plugin(rig, tmp_path).done("throttle", "orders", "50k", "--for", "30m")

            assert re.search(r"limited to 50,000 rows/s until 2\S+Z at ", limited)
            assert "by the override annotation." in limited
            assert current(rig)["spec"]["throttle"]["rowsPerSecond"] == 7
            assert rig.double().progress.throttle_rows_per_second == 50_000

    async def test_job_of_a_gitops_tool_is_paused_by_the_override(self, rigs, tmp_path):
        """The tool would undo a change of the spec. After `resume` no override is left."""
        async with rigs() as rig:
            rig.create(annotations=ARGO)
            await rig.until_holds("Running")
            generation = current(rig)["metadata"]["generation"]
            kubectl = Plugin(rig, tmp_path)

            paused = await kubectl.done("pause", "orders")

            assert "by the override annotation, because Argo CD (jobs) owns the spec" in paused
            assert override(rig) == {"desiredState": "Paused", "pause": {"scope": "History"}}
            assert current(rig)["metadata"]["generation"] == generation
            assert rig.double().progress.paused == "History"
            await kubectl.done("resume", "orders")
            assert override(rig) is None
            assert rig.double().progress.paused is None

    async def test_spec_of_a_gitops_tool_is_written_on_request(self, tmp_path):
        """The output warns that the tool may reset it."""
        async with Rig() as rig:
            rig.create(annotations=ARGO)
            await rig.until_holds("Running")

            paused = await Plugin(rig, tmp_path).done("pause", "orders", "--how", "spec")

            assert "in the spec, which Argo CD (jobs) owns and may reset" in paused
            assert current(rig)["spec"]["desiredState"] == "Paused"

    async def test_plain_annotation_does_not_defeat_a_command(self, tmp_path):
        """It takes precedence over spec and override, so the command removes it."""
        async with Rig() as rig:
            rig.create(annotations={STATE_ANNOTATION: "Paused"})
            await rig.until_holds("Paused")

            await Plugin(rig, tmp_path).done("resume", "orders")

            assert rig.double().progress.paused is None
            assert STATE_ANNOTATION not in current(rig)["metadata"]["annotations"]

    async def test_suspend_waits_until_the_pods_are_gone(self, rigs, tmp_path):
        """`unsuspend` starts the next attempt."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")
            kubectl = Plugin(rig, tmp_path)

            suspended = await kubectl.done("suspend", "orders")

            assert "suspended; the pods are deleted" in suspended
            assert current(rig)["status"]["phase"] == "Suspended"
            assert "the next attempt resumes" in await kubectl.done("unsuspend", "orders")
            await rig.until_holds("Running")
            assert rig.attempt() == 2

    async def test_retry_ends_the_attempt_at_a_barrier(self, tmp_path):
        """The next one follows at once."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")

            await Plugin(rig, tmp_path).done("retry", "orders")

            await rig.until(lambda: rig.attempt() == 2 and rig.holds("Running"))

    async def test_verify_prints_the_receipt_and_its_proof(self, rigs, tmp_path):
        """It waits until the receipt is in the status."""
        async with rigs() as rig:
            rig.create()
            await rig.until_holds("Running")

            verified = await Plugin(rig, tmp_path).done("verify", "orders")

            assert "equal" in verified
            assert current(rig)["status"]["receipt"]["epoch"] >= 1

    async def test_json_has_the_state_and_the_proof(self, tmp_path):
        """Programs read fields, not sentences."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")

            answer = json.loads(await Plugin(rig, tmp_path).done("pause", "orders", "-o", "json"))

            assert (answer["name"], answer["written"], answer["acknowledged"]) == ("orders", "spec", True)
            assert re.fullmatch(r"epoch \d+", answer["proof"])


class TestRightsOfACommand:
    """The right to patch is enough; others make it quicker."""

    async def test_user_who_may_not_watch_gets_the_acknowledgement_by_reads(self, tmp_path):
        """The change is written, so an error would be wrong."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            driver = rig.double()
            driver.silent = True  # otherwise the first read may have the acknowledgement, and no watch is tried
            denied = Fault(
                "answer", verb="watch", plural="backfills", status=403, reason="Forbidden", user="reader", times=99,
                action=lambda _request: setattr(driver, "silent", False),
            )  # fmt: skip
            rig.api.faults.append(denied)
            kubectl = Plugin(rig, tmp_path)
            kubectl.kubeconfig.write_text(kubectl.kubeconfig.read_text().replace("token: operator", "token: reader"))

            assert "Acknowledged at epoch" in await kubectl.done("pause", "orders")
            assert denied.times < 99


class TestCommandsWithoutADriver:
    """A change is recorded, and the next driver starts with it."""

    async def test_pause_of_a_suspended_job_is_recorded(self, tmp_path):
        """No driver can confirm it, so the command does not wait for one."""
        async with Rig() as rig:
            rig.create(suspend=True)
            await rig.until_holds("Suspended")

            paused = await Plugin(rig, tmp_path).done("pause", "orders", "--timeout", "60")

            assert "Suspended: no driver runs; the next one starts paused." in paused
            assert "Acknowledged" not in paused

    async def test_verify_of_a_suspended_job_is_no_success(self, tmp_path):
        """A script would move readers to a target that was not compared; an earlier receipt is no answer."""
        async with Rig() as rig:
            rig.create()
            await rig.until_holds("Running")
            await Plugin(rig, tmp_path).done("verify", "orders")
            await Plugin(rig, tmp_path).done("suspend", "orders")

            verified = await Plugin(rig, tmp_path)("verify", "orders")
            unawaited = await Plugin(rig, tmp_path).done("verify", "orders", "--timeout", "0")

            assert_ending(verified, "NotRunning")
            assert "nothing was compared: no driver runs" in verified.stderr
            assert "recorded, not awaited" in unawaited

    async def test_command_of_an_ended_job_changes_nothing(self, tmp_path):
        """An edit of a failed job's spec would start it again."""
        async with Rig() as rig:
            rig.create(backoffLimit=0)
            await rig.until_holds("Running")
            rig.kubelet.finish(rig.driver(), exit_code=40)
            await rig.until_phase("Failed")
            before = written_by_users(rig)

            result = await Plugin(rig, tmp_path)("pause", "orders")

            assert result.exit_code == 4
            assert f"error: NotRunning: {rig.namespace}/orders has failed." in result.stderr
            assert f"kubectl backfill retry {rig.namespace}/orders" in result.stderr
            assert written_by_users(rig) == before

    async def test_silent_operator_ends_in_a_timeout_with_the_cause(self, tmp_path):
        """The change stays recorded."""
        async with Rig(start=False) as rig:
            rig.create()
            await rig.until(rig.get)

            result = await Plugin(rig, tmp_path)("pause", "orders", "--timeout", "1")

            assert result.exit_code == 5
            assert "error: NotAcknowledged: " in result.stderr
            assert "no operator has seen this Backfill" in result.stderr
            assert current(rig)["spec"]["desiredState"] == "Paused"

    async def test_missing_backfill_is_named(self, tmp_path):
        """The exit code is that of a command that found no job."""
        async with Rig(start=False) as rig:
            result = await Plugin(rig, tmp_path)("pause", "ordres")

            assert_ending(result, "BackfillNotFound")
            assert result.exit_code == 4
            assert "error: BackfillNotFound: cannot get backfills.backfill.dev ordres in namespace" in result.stderr

    async def test_write_that_the_server_rejects_is_named(self, tmp_path):
        """An admission policy may reject a change; nothing is written."""
        async with Rig(start=False) as rig:
            rig.create()
            rig.api.faults.append(Fault("answer", verb="patch", plural="backfills", status=422, reason="Invalid"))

            result = await Plugin(rig, tmp_path)("pause", "orders")

            assert_ending(result, "WriteRefused")
            assert "cannot patch backfills.backfill.dev orders in namespace shop" in result.stderr
            assert current(rig)["spec"].get("desiredState") != "Paused"

    async def test_write_that_always_conflicts_is_named(self, tmp_path):
        """Another client may change the object before each try."""
        async with Rig(start=False) as rig:
            rig.create()
            conflict = Fault("answer", verb="patch", plural="backfills", status=409, reason="Conflict", times=99)
            rig.api.faults.append(conflict)

            result = await Plugin(rig, tmp_path)("pause", "orders")

            assert_ending(result, "WriteConflict")
            assert conflict.times < 98


class TestApproval:
    """An approval names the plan, so no later plan is approved by it."""

    async def test_approve_starts_the_planned_job(self, tmp_path):
        """The spec has the name of the plan."""
        async with Rig() as rig:
            rig.create(approval="Manual")
            await rig.until(lambda: rig.double() is not None)
            rig.kubelet.finish(rig.driver(), ending=plan_ending())
            await rig.until_phase("AwaitingApproval")
            plan = rig.status()["planOf"]

            approved = await Plugin(rig, tmp_path).done("approve", "orders")

            assert f"plan {plan} is approved" in approved
            assert current(rig)["spec"]["approvedPlan"] == plan

    async def test_job_without_a_plan_cannot_be_approved(self, tmp_path):
        """Approving an unseen plan is refused."""
        async with Rig(start=False) as rig:
            rig.create(approval="Manual")

            result = await Plugin(rig, tmp_path)("approve", "orders")

            assert result.exit_code == 5
            assert "does not wait for an approval: it is Pending" in result.stderr


def plan_ending():
    """Return the end of a driver that made a plan."""
    numbers = {"rows": 10, "bytes": 100, "files": 1, "splits": 1, "estimated_seconds": 5}
    plan = Plan(**numbers, estimated_seconds_low=4, estimated_seconds_high=6)
    return Ending(outcome="Planned", reason="Planned", plan=plan)
