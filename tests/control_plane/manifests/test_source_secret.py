"""A source's Secret is a folder in each pod that reads the source."""

from typing import Any

import pytest
from support.operators.observations import spec

from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod, executor_template


def launch(**fields: Any) -> Launch:
    """Return a launch of a valid spec."""
    return Launch("shop", "orders", "0b5a-uid", 1, "Run", spec(**fields), Installation("backfill:1"))


class TestTheSecretOfASource:
    """Clients of a source read its keys in each pod."""

    @pytest.mark.parametrize(("make", "name"), [(driver_pod, "driver"), (executor_template, "executor")])
    def test_secret_is_mounted_where_the_source_is_read(self, make, name):
        """It is read-only and at the same path, and only the driver's variable of the folder names it."""
        topic = {"bootstrapServers": "broker:9092", "topic": "orders", "secretRef": "kafka-reader"}
        target = {"type": "Delta", "delta": {"path": "s3a://lake/orders", "writeMode": "Append"}}
        source, strategy = {"type": "Kafka", "kafka": topic}, {"type": "SourceSplits"}
        pod = make(launch(source=source, target=target, strategy=strategy))

        (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "backfill-source")
        (container,) = (container for container in pod["spec"]["containers"] if container["name"] == name)
        (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "backfill-source")
        assert volume["secret"] == {"secretName": "kafka-reader", "defaultMode": 0o440}
        assert (mount["mountPath"], mount["readOnly"]) == ("/etc/backfill-source", True)
        if make is driver_pod:
            assert {"name": "BACKFILL_SOURCE_SECRET_DIR", "value": "/etc/backfill-source"} in container["env"]

    def test_pod_has_no_volume_without_a_secret(self):
        """A source that needs no Secret mounts none."""
        assert "backfill-source" not in str([driver_pod(launch()), executor_template(launch())])
