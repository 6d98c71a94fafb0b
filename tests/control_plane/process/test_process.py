"""The operator as a process: settings, signals, and output."""

import asyncio
import json
import os
import signal
import sys

import pytest
from support.operators.rig import QUICK, Rig

from backfill_core.cluster_rules.limits import VOLUMES
from backfill_core.errors import EXIT_USAGE
from backfill_operator.settings import PREFIX, InvalidOperatorSettingError, OperatorSettings


async def process(rig, folder, **environ):
    """Start the operator as in a cluster."""
    given = {f"{PREFIX}{name.upper()}": str(value) for name, value in QUICK.items()} | environ
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME") if name in os.environ}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "backfill_operator",
        env=kept | given | {"KUBECONFIG": str(rig.api.kubeconfig(folder))},
        stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
    )  # fmt: skip


async def ended(child, within_s=90):
    """Return exit code and output."""
    async with asyncio.timeout(within_s):
        _, output = await child.communicate()
    return child.returncode, output.decode()


class TestSettings:
    def test_each_setting_can_be_set(self):
        """The variable has the setting's name."""
        given = OperatorSettings.from_environ({f"{PREFIX}WORKERS": "3", f"{PREFIX}NAMESPACES": "a, b,"})

        assert (given.workers, given.namespaces) == (3, ("a", "b"))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("WORKERS", "many"),
            ("WORKERS", "0"),
            ("WORKER", "3"),
            ("HEALT_PORT", "80"),
            ("METRICS_PORT", "none"),
            ("LEASE_SECONDS", "1"),
            ("RELIST_MIN_SECONDS", "9999"),
            ("ALLOWED_VOLUMES", "secret,hostPath"),
            ("ALLOWED_VOLUMES", "*"),
            ("ALLOWED_POD_FIELDS", "hostNetwork"),
            ("ALLOWED_HOST_PATHS", "lake"),
            ("ALLOWED_IMAGES", "registry/*/spark"),
            ("ALLOW_SIDECARS", "sometimes"),
        ],
    )
    def test_invalid_setting_is_named(self, name, value):
        """Users would notice the mistake too late if the default applied silently."""
        with pytest.raises(InvalidOperatorSettingError, match=PREFIX) as refused:
            OperatorSettings.from_environ({PREFIX + name: value})
        assert refused.value.exit_code == EXIT_USAGE

    def test_empty_list_allows_nothing(self):
        """An unset variable means the default, which allows the volumes that most jobs need."""
        given = OperatorSettings.from_environ({f"{PREFIX}ALLOWED_VOLUMES": "", f"{PREFIX}WORKERS": ""})

        assert (given.limits.volumes, given.workers) == ((), OperatorSettings().workers)
        assert OperatorSettings().limits.volumes == VOLUMES

    @pytest.mark.parametrize("service", ["", "METRICS_", "HEALTH_", "A_B_"])
    def test_variables_of_a_service_are_not_settings(self, service):
        """A Service with the operator's name creates variables that would prevent its start."""
        links = {
            "SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "9090", "SERVICE_PORT_METRICS": "9090", "PORT": "tcp://10.0.0.1:9090",
            "PORT_9090_TCP": "tcp://10.0.0.1:9090", "PORT_9090_TCP_PROTO": "tcp", "PORT_9090_TCP_PORT": "9090",
            "PORT_9090_TCP_ADDR": "10.0.0.1",
        }  # fmt: skip
        given = {PREFIX + service + name: value for name, value in links.items()}
        plain = OperatorSettings.from_environ({f"{PREFIX}IDENTITY": "me"})

        assert OperatorSettings.from_environ(given | {f"{PREFIX}IDENTITY": "me"}) == plain


class TestAProcess:
    async def test_process_works_and_ends_on_request(self, tmp_path):
        """It ends before its pod's grace period is over and releases the lease; its log is JSON with the context."""
        async with Rig(start=False) as rig:
            child = await process(rig, tmp_path, BACKFILL_OPERATOR_LEADER_ELECTION="true")
            rig.create()
            await rig.until_holds("Running")
            child.send_signal(signal.SIGTERM)
            code, output = await ended(child, within_s=20)
            lease = rig.store.get("leases", "backfill-system", "backfill-operator")

        assert code == 0, output
        assert lease["spec"]["holderIdentity"] == ""
        lines = [json.loads(line) for line in output.splitlines()]
        launch = next(line for line in lines if "orders-1-driver" in line["message"])
        assert (launch["job"], launch["attempt"]) == ("shop/orders", 1)

    async def test_process_ends_when_it_loses_the_lease(self, tmp_path):
        """Only its end reliably stops its actions."""
        quick = {"LEASE_SECONDS": "3", "LEASE_RENEW_DEADLINE_SECONDS": "2", "LEASE_RETRY_SECONDS": "0.2"}
        async with Rig(start=False) as rig:
            given = {PREFIX + name: value for name, value in quick.items()}
            child = await process(rig, tmp_path, BACKFILL_OPERATOR_LEADER_ELECTION="true", **given)
            await rig.until(lambda: rig.store.objects["leases"])
            place = ("leases", "backfill-system", "backfill-operator")
            spec = rig.store.get(*place)["spec"] | {"holderIdentity": "another"}
            rig.store.patch(*place, {"spec": spec})
            code, output = await ended(child)

        assert code == 1, output
        assert "leadership is lost" in output

    async def test_process_reports_invalid_settings(self, tmp_path):
        """The process does not start."""
        async with Rig(start=False) as rig:
            code, output = await ended(await process(rig, tmp_path, BACKFILL_OPERATOR_WORKERS="none"))

        assert code == EXIT_USAGE
        assert "BACKFILL_OPERATOR_WORKERS" in output
