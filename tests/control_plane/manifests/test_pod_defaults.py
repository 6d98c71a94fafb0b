"""The administrator's defaults for pods: merged below a job's template, and refused at the start if they cannot work."""

import json

import pytest
from support.operators.observations import spec

from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.pod_defaults import RESERVED_ENV
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.driver_pod import driver_pod
from backfill_operator.settings import InvalidOperatorSettingError, OperatorSettings

CLAIM = {"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}


def container(**fields):
    """Return the pod spec of a driver's template with these fields of our container."""
    return {"containers": [{"name": "driver"} | fields]}


def launch(default, job=None, **fields):
    """Return the launch of a job with a template, on an installation with a default."""
    installation = Installation("backfill:1", templates={"driver": {"spec": default}})
    return Launch(
        "shop", "orders", "uid", 1, "Run", spec(driver={"template": {"spec": job or {}}}, **fields), installation
    )


def mount(path, name="ca"):
    """Return the fields of a container that mounts a volume."""
    return {"volumeMounts": [{"name": name, "mountPath": path}]}


class TestAJob:
    """No job replaces, hides or reuses a volume of the administrator."""

    DEFAULT = {"volumes": [{"name": "ca", "secret": {"secretName": "ca"}}], **container(**mount("/mnt/ca"))}

    @pytest.mark.parametrize(
        ("job", "field"),
        [
            ({"volumes": [CLAIM | {"name": "ca"}]}, "volumes[0].name"),
            (container(**mount("/lake")), "containers[0].volumeMounts[0].name"),
            (container(**mount("/mnt/ca", "lake")), "containers[0].volumeMounts[0].mountPath"),
            (container(**mount("/mnt/ca/certs/", "lake")), "containers[0].volumeMounts[0].mountPath"),
            (container(**mount("/mnt", "lake")), "containers[0].volumeMounts[0].mountPath"),
        ],
        ids=["its name", "its content", "its folder", "a folder below", "a folder above"],
    )
    def test_job_is_refused_that_takes(self, job, field):
        """A job that hides a certificate could be read on its way."""
        with pytest.raises(ManifestRefusedError, match="of the administrator") as refused:
            driver_pod(launch(self.DEFAULT, job))

        assert refused.value.path == f"spec.driver.template.spec.{field}"

    def test_job_may_mount_elsewhere(self):
        """A folder whose name only begins alike is another folder."""
        made = driver_pod(launch(self.DEFAULT, {"volumes": [CLAIM], **container(**mount("/mnt/cakes", "lake"))}))

        paths = {mount["name"]: mount["mountPath"] for mount in made["spec"]["containers"][0]["volumeMounts"]}
        assert (paths["ca"], paths["lake"]) == ("/mnt/ca", "/mnt/cakes")

    def test_job_replaces_a_variable_as_a_whole(self):
        """The API server refuses a variable with both a value and a reference."""
        theirs = {"name": "AWS_REGION", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "b"}}}
        default = container(env=[{"name": "AWS_REGION", "value": "north"}])

        made = driver_pod(launch(default, container(env=[theirs])))
        assert [item for item in made["spec"]["containers"][0]["env"] if item["name"] == "AWS_REGION"] == [theirs]

    def test_job_writes_to_a_claim_of_the_administrator(self):
        """The check for folders that end with their pod knows the default's volumes."""
        folder = {"target": {"type": "Delta", "delta": {"path": "/mnt/lake/orders"}}}
        fleeting = {"volumes": [{"name": "lake", "emptyDir": {}}], **container(**mount("/mnt/lake", "lake"))}

        assert driver_pod(launch({"volumes": [CLAIM], **container(**mount("/mnt/lake", "lake"))}, **folder))
        with pytest.raises(ManifestRefusedError, match="deleted with its pod"):
            driver_pod(launch(fleeting, **folder))


class TestADefaultThatCannotWork:
    """The operator does not start: a default that breaks every job is found before the first one."""

    @pytest.mark.parametrize(
        ("template", "field"),
        [
            ({"spec": {"securityContext": {"runAsUser": 0}}}, "spec.securityContext"),
            ({"spec": {"hostNetwork": True}}, "spec.hostNetwork"),
            ({"spec": {"initContainers": []}}, "spec.initContainers"),
            ({"spec": {"volumes": [{"name": "backfill-spec"}]}}, "spec.volumes[0].name"),
            ({"spec": {"volumes": {}}}, "spec.volumes"),
            ({"spec": {"containers": [{"name": "executor"}]}}, "spec.containers[0].name"),
            ({"spec": container(image="mine")}, "spec.containers[0].image"),
            ({"spec": container(**mount("/etc"))}, "spec.containers[0].volumeMounts[0].mountPath"),
            ({"metadata": {"labels": {"backfill.dev/role": "x"}}}, 'metadata.labels["backfill.dev/role"]'),
            *(
                ({"spec": container(env=[{"name": name.replace("*", "X")}])}, "spec.containers[0].env[0].name")
                for name in RESERVED_ENV
            ),
        ],
        ids=str,
    )
    def test_template_is_refused_with_variable_and_path(self, template, field):
        """The message names both."""
        with pytest.raises(InvalidOperatorSettingError) as refused:
            OperatorSettings.from_environ({"BACKFILL_OPERATOR_DRIVER_TEMPLATE": json.dumps(template)})

        assert "BACKFILL_OPERATOR_DRIVER_TEMPLATE" in str(refused.value)
        assert f"template.{field}: " in str(refused.value)

    @pytest.mark.parametrize("text", ["{", "[]", '"a"'])
    def test_text_that_is_no_mapping_is_refused(self, text):
        """As is one that is not JSON."""
        with pytest.raises(InvalidOperatorSettingError, match="EXECUTOR_TEMPLATE"):
            OperatorSettings.from_environ({"BACKFILL_OPERATOR_EXECUTOR_TEMPLATE": text})
