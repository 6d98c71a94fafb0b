"""`spec.scratch`: driver and executors keep Spark's temporary files on the volume that the spec requests."""

from __future__ import annotations

from typing import Any

import pytest
from support.operators.observations import spec

from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.limits import Limits
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod, executor_template

SCRATCH, LOCAL = "/var/lib/backfill", "/var/lib/backfill/spark"


def pods(limits: Limits = Limits(), **scratch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the driver's pod and the template of executors."""
    launched = Launch("shop", "orders", "uid", 1, "Run", spec(scratch=scratch), Installation("spark:1", limits=limits))
    return driver_pod(launched), executor_template(launched)


def volume(pod: dict[str, Any], path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the mount at a path of our container, and the volume that it mounts."""
    [mount] = [mount for mount in pod["spec"]["containers"][0]["volumeMounts"] if mount["mountPath"] == path]
    [found] = [volume for volume in pod["spec"]["volumes"] if volume["name"] == mount["name"]]
    return mount, found


def temporary_files(**scratch: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return mount and volume of the driver's and of the executors' temporary files."""
    driver, executor = pods(**scratch)
    return [volume(driver, SCRATCH), volume(executor, LOCAL)]


class TestTemporaryFiles:
    def test_class_gives_each_pod_a_new_volume_that_is_deleted_with_it(self) -> None:
        """An ephemeral volume needs no rights of the driver's account."""
        for _, found in temporary_files(size="20Gi", storageClassName="fast"):
            claim = found["ephemeral"]["volumeClaimTemplate"]
            assert claim["spec"] == {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "20Gi"}},
            }
            assert claim["metadata"]["labels"]["backfill.dev/backfill"] == "orders"

    def test_size_limits_the_disk_of_the_node(self) -> None:
        """A pod that fills the disk would evict others."""
        assert [found["emptyDir"] for _, found in temporary_files(size="20Gi")] == [{"sizeLimit": "20Gi"}] * 2

    def test_each_pod_has_its_own_folder_in_a_claim(self) -> None:
        """Two drivers would otherwise share their state, and executors the folders of their blocks."""
        for mount, found in temporary_files(claimName="scratch"):
            assert found["persistentVolumeClaim"] == {"claimName": "scratch"}
            assert mount["subPathExpr"] == "$(POD_NAME)"
        for pod in pods(claimName="scratch"):
            [name] = [item for item in pod["spec"]["containers"][0]["env"] if item["name"] == "POD_NAME"]
            assert name["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}

    def test_executor_mounts_it_under_the_name_that_spark_looks_for(self) -> None:
        """Spark adds its own folder without a limit, unless a mount has this prefix."""
        _, executor = pods(size="1Gi")

        mount, _ = volume(executor, LOCAL)

        assert mount["name"].startswith("spark-local-dir-")

    def test_spec_without_it_changes_no_pod(self) -> None:
        """Pods of earlier versions, and equal executors, stay equal."""
        driver, executor = pods()

        assert volume(driver, SCRATCH)[1] == {"name": "backfill-scratch", "emptyDir": {}}
        assert not any(mount["mountPath"] == LOCAL for mount in executor["spec"]["containers"][0]["volumeMounts"])

    @pytest.mark.parametrize(
        ("scratch", "field", "kind"),
        [
            ({"claimName": "scratch"}, "claimName", "persistentVolumeClaim"),
            ({"size": "1Gi", "storageClassName": "fast"}, "storageClassName", "ephemeral"),
        ],
    )
    def test_type_of_volume_that_is_not_allowed_starts_no_pod(
        self, scratch: dict[str, Any], field: str, kind: str
    ) -> None:
        """The message names the administrator's setting."""
        with pytest.raises(ManifestRefusedError, match=rf"spec\.scratch\.{field}: .*{kind}.*allowedVolumes"):
            pods(Limits(volumes=("emptyDir",)), **scratch)
