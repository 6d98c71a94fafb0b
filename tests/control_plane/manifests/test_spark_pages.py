"""Log level, event log and web UI of a spec reach the driver as Spark settings, and the UI a port of its Service."""

from __future__ import annotations

from typing import Any

import yaml
from support.operators.observations import spec

from backfill_api.load import load_backfill
from backfill_core.cluster_rules.limits import Limits
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.manifests.service import service
from backfill_operator.manifests.spark_conf import properties


def launch(kind: Any = "Run", conf: dict[str, str] | None = None, **spark: Any) -> Launch:
    """Return a launch of a spec with this section `spark`."""
    fields = spark if conf is None else spark | {"conf": conf}
    return Launch("shop", "orders", "uid", 1, kind, spec(spark=fields), Installation("spark:1"))


def conf(launched: Launch) -> dict[str, str]:
    """Return the Spark settings that the driver reads."""
    return dict(load_backfill(config_map(launched)["data"]["backfill.yaml"]).spec.spark.conf)


def ports(launched: Launch) -> tuple[set[str], set[str]]:
    """Return the names of the ports of Service and container."""
    of_pod = driver_pod(launched)["spec"]["containers"][0]["ports"]
    return {port["name"] for port in service(launched)["spec"]["ports"]}, {port["name"] for port in of_pod}


class TestTheWebUi:
    def test_ui_has_a_named_port_and_no_links_that_end_jobs(self) -> None:
        """It has no login, so a viewer must not be able to act."""
        launched = launch(ui=True)

        assert conf(launched)["spark.ui.enabled"] == "true"
        assert conf(launched)["spark.ui.killEnabled"] == "false"
        assert all("spark-ui" in names for names in ports(launched))
        assert [port["port"] for port in service(launched)["spec"]["ports"] if port["name"] == "spark-ui"] == [4040]

    def test_driver_has_no_ui_by_default_and_no_plan_has_one(self) -> None:
        """A session switches it off itself."""
        for launched in (launch(), launch(kind="Plan", ui=True)):
            assert "spark.ui.enabled" not in conf(launched)
            assert not any("spark-ui" in names for names in ports(launched))


class TestTheSettings:
    def test_event_log_rolls_and_is_compressed(self) -> None:
        """A job that follows for weeks would write one endless file."""
        made = conf(launch(eventLog={"path": "s3a://lake/events", "maxFileMebibytes": 64}))

        assert {name: value for name, value in made.items() if name.startswith("spark.eventLog.")} == {
            "spark.eventLog.enabled": "true", "spark.eventLog.dir": "s3a://lake/events", "spark.eventLog.compress": "true",
            "spark.eventLog.rolling.enabled": "true", "spark.eventLog.rolling.maxFileSize": "64m",
        }  # fmt: skip

    def test_fields_join_the_settings_of_the_spec(self) -> None:
        """A driver of an earlier version knows settings, and not these fields."""
        launched = launch(conf={"spark.sql.shuffle.partitions": "8"}, logLevel="INFO")

        assert conf(launched) == {"spark.sql.shuffle.partitions": "8", "spark.log.level": "INFO"}
        assert set(yaml.safe_load(config_map(launched)["data"]["backfill.yaml"])["spec"]["spark"]) == {"conf"}

    def test_defaults_add_no_setting(self) -> None:
        """A driver reads its spec as before."""
        assert conf(launch(logLevel="ERROR", ui=False)) == {}


class TestDecommissioning:
    def test_executor_of_a_deleted_pod_moves_its_files_before_it_is_killed(self) -> None:
        """Kubernetes kills it 30 seconds after SIGTERM; the image has no script of Spark's for another signal."""
        named = {"spark.decommission.enabled": "false"}
        limits = Limits(conf=tuple(named))

        def made(instances: int) -> dict[str, str]:
            fields = spec(executor={"instances": instances}, spark={"conf": named})
            return properties(Launch("shop", "orders", "uid", 1, "Run", fields, Installation("spark:1", limits=limits)))

        assert (made(2)["spark.decommission.enabled"], made(2)["spark.executor.decommission.signal"]) == (
            "true",
            "TERM",
        )
        assert made(2)["spark.storage.decommission.enabled"] == "true"
        assert made(2)["spark.storage.decommission.replicationReattemptInterval"] == "2s"
        assert {name for name in made(0) if "decommission" in name} == set(named)
