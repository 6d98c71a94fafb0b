"""The objects of an attempt have legal names and the right owner, never run as root, and a template cannot replace required values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.crd.crd_specs import of_a_topic
from support.operators.observations import TABLES, spec

from backfill_api.load import load_backfill
from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.limits import Limits
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod, executor_template
from backfill_operator.manifests.secret import Identity, secret
from backfill_operator.manifests.service import service
from backfill_operator.manifests.spark_conf import properties, properties_text
from backfill_spark.settings import DriverSettings

IDENTITY = Identity("certificate", "key", "token", "rpc")


def launch(name: str = "orders", attempt: int = 1, **fields: Any) -> Launch:
    """Return a launch of a valid spec."""
    kind, limits = fields.pop("kind", "Run"), fields.pop("limits", Limits())
    controls = {
        item: fields.pop(item) for item in ("paused", "rows_per_second", "bytes_per_second", "until") if item in fields
    }
    return Launch(
        "shop", name, "0b5a-uid", attempt, kind, spec(**fields), Installation("backfill:1", limits=limits), **controls
    )


def objects(launched: Launch) -> list[dict[str, Any]]:
    """Return all four objects."""
    return [config_map(launched), secret(launched, IDENTITY), service(launched), driver_pod(launched)]


def container(pod: dict[str, Any], name: str = "driver") -> dict[str, Any]:
    """Return a container by name."""
    return next(container for container in pod["spec"]["containers"] if container["name"] == name)


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """Return the driver's variables."""
    return {variable["name"]: variable.get("value", "") for variable in container(pod)["env"]}


def template(**pod_spec: Any) -> dict[str, Any]:
    """Return the driver section with a template."""
    return {"driver": {"template": {"spec": pod_spec}}}


class TestEveryObject:
    """Every object has labels, and is deleted with its owner."""

    @given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,100}[a-z0-9])?", fullmatch=True), st.integers(1, 10**8))
    def test_object_belongs_to_the_attempt(self, name: str, attempt: int) -> None:
        """It is owned by UID, so it does not belong to a recreated Backfill of the same name."""
        for manifest in objects(launch(name, attempt)):
            meta = manifest["metadata"]
            (owner,) = meta["ownerReferences"]
            assert (owner["uid"], owner["controller"], owner["name"]) == ("0b5a-uid", True, name)
            assert len(meta["name"]) <= 63
            assert meta["labels"]["backfill.dev/attempt"] == str(attempt)
            assert all(len(value) <= 63 for value in meta["labels"].values())
        assert len({manifest["metadata"]["name"] for manifest in objects(launch(name, attempt))}) == 1

    def test_object_is_excluded_from_backups(self) -> None:
        """Velero reads this label; the target contains all data that a job needs to resume (fault C5)."""
        made = [manifest["metadata"]["labels"] for manifest in (*objects(launch()), executor_template(launch()))]

        assert {labels.get("velero.io/exclude-from-backup") for labels in made} == {"true"}

    def test_equal_launches_give_equal_objects(self) -> None:
        """A repeated try creates no second object."""
        assert objects(launch()) == objects(launch())

    def test_service_selects_only_this_driver(self) -> None:
        """It does not select its executors or the attempt before."""
        labels = driver_pod(launch())["metadata"]["labels"]
        selector = service(launch())["spec"]["selector"]

        assert selector.items() <= labels.items()
        assert not selector.items() <= executor_template(launch())["metadata"]["labels"].items()
        assert not selector.items() <= driver_pod(launch(attempt=2))["metadata"]["labels"].items()
        assert service(launch())["spec"]["clusterIP"] == "None"
        assert service(launch())["spec"]["publishNotReadyAddresses"] is True


class TestWhatTheDriverReads:
    """It is the same document that a local run reads."""

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"throttle": {"rowsPerSecond": 5}, "desiredState": "Paused", "suspend": True},
            {"transform": {"select": ["id", "upper(`größe`) AS x -- \t\u0007"], "where": "a > '\"\\n'"}},
            {"after": "Follow", "verify": "Final", "spark": {"conf": {"spark.sql.ansi.enabled": "true"}}},
        ],
    )
    def test_spec_can_be_loaded_and_has_the_same_hash(self, fields: dict[str, Any]) -> None:
        """Another hash would mean another job: the driver would refuse its own state."""
        launched = launch(**fields)
        document = {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "orders", "namespace": "shop"}, "spec": TABLES | fields}  # fmt: skip

        read = load_backfill(config_map(launched)["data"]["backfill.yaml"])

        assert read.spec_hash == load_backfill(document).spec_hash
        assert (read.spec.after, read.spec.verify, read.spec.spark.conf) == (
            launched.spec.after,
            launched.spec.verify,
            launched.spec.spark.conf,
        )

    def test_spec_has_the_current_controls(self) -> None:
        """They combine spec and override, so the spec is only a part of them."""
        launched = launch(desiredState="Running", throttle={"rowsPerSecond": 9}, paused="All")

        read = load_backfill(config_map(launched)["data"]["backfill.yaml"]).spec

        assert (read.desired_state, read.pause.scope, read.throttle.rows_per_second) == ("Paused", "All", None)

    def test_spec_has_the_current_limits(self) -> None:
        """Limits are of rows, of bytes, or of both, with an end; an override leaves the automatic limit in force."""
        auto, end = {"commitSeconds": 2, "floor": 10, "ceiling": 90}, "2026-11-26T18:00:00Z"
        for rows, size_bytes in ((5, None), (None, 7), (5, 7)):
            launched = launch(throttle={"auto": auto}, rows_per_second=rows, bytes_per_second=size_bytes, until=end)
            read = load_backfill(config_map(launched)["data"]["backfill.yaml"]).spec.throttle
            assert (read.rows_per_second, read.bytes_per_second, read.until) == (rows, size_bytes, end)
            assert read.model_dump(by_alias=True, exclude_none=True)["auto"] == auto

    @given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=40), max_size=5))
    def test_properties_survive_their_file(self, values: dict[str, str]) -> None:
        """Java unescapes the escaped characters; a value that is truncated at a `#` would be accepted."""
        assert _java_properties(properties_text(values)) == values


class TestSpark:
    """Required settings are set, and the spec's conf takes precedence over other settings."""

    def test_driver_is_a_client_with_its_own_executors(self) -> None:
        """The driver pod owns its executors, which reach it by the Service and authenticate."""
        made = properties(launch(executor={"instances": 3}))

        assert made["spark.master"] == "k8s://https://kubernetes.default.svc"
        assert made["spark.driver.host"] == "orders-1-driver.shop.svc"
        assert made["spark.kubernetes.driver.pod.name"] == "orders-1-driver"
        assert (made["spark.executor.instances"], made["spark.authenticate"]) == ("3", "true")
        assert made["spark.kubernetes.executor.enablePollingWithResourceVersion"] == "true"
        assert made["spark.kubernetes.executor.label.backfill.dev/role"] == "executor"

    def test_rows_are_encrypted_if_the_administrator_requires_it(self) -> None:
        """Rows are encrypted between pods and on disk; a driver without executors only has its disk. A spec cannot disable it."""
        conf = {"spark.network.crypto.enabled": "false", "spark.io.encryption.enabled": "false"}
        launched = launch(spark={"conf": conf}, limits=Limits(conf=("*",)))
        made = properties(replace(launched, installation=replace(launched.installation, encrypt=True)))
        alone = launch(executor={"instances": 0})
        disk = properties(replace(alone, installation=replace(alone.installation, encrypt=True)))

        assert (made["spark.network.crypto.enabled"], made["spark.io.encryption.enabled"]) == ("true", "true")
        assert made["spark.network.crypto.saslFallback"] == "false"
        assert ("spark.network.crypto.enabled" in disk, disk["spark.io.encryption.enabled"]) == (False, "true")
        assert "spark.io.encryption.enabled" not in properties(launch())

    def test_executors_authenticate_with_a_file(self) -> None:
        """Every reader of pods sees a secret in a variable. An executor has no other entry of the Secret."""
        made = properties(launch(executor={"instances": 3}))
        pod = executor_template(launch())
        (volume,) = [volume for volume in pod["spec"]["volumes"] if "secret" in volume]
        (mount,) = [mount for mount in container(pod, "executor")["volumeMounts"] if mount["name"] == volume["name"]]
        (item,) = volume["secret"]["items"]

        assert made["spark.authenticate.secret.file"] == f"{mount['mountPath']}/{item['path']}"
        assert secret(launch(), IDENTITY)["stringData"][item["key"]] == "rpc"
        # Spark reads the file only with a Kubernetes master, and an executor receives its master only from the driver.
        assert {"name": "JAVA_TOOL_OPTIONS", "value": f"-Dspark.master={made['spark.master']}"} in container(
            pod, "executor"
        )["env"]
        assert volume["secret"]["secretName"] == secret(launch(), IDENTITY)["metadata"]["name"]

    @pytest.mark.parametrize("fields", [{"executor": {"instances": 0}}, {"kind": "Plan"}])
    def test_driver_without_executors_does_the_work(self, fields: dict[str, Any]) -> None:
        """It has as many threads as cores."""
        made = properties(launch(driver={"resources": {"limits": {"cpu": "1500m", "memory": "4Gi"}}}, **fields))

        assert made["spark.master"] == "local[2]"
        assert "spark.kubernetes.executor.podTemplateFile" not in made
        assert "spark.driver.defaultJavaOptions" not in made

    def test_driver_of_a_topic_with_executors_uses_the_first_compiler(self) -> None:
        """It moves no rows; the spec may change the setting."""
        named = {"spark.driver.defaultJavaOptions": "-XX:+TieredCompilation"}
        topic = {key: value for key, value in of_a_topic().items() if key in ("source", "target", "strategy")}

        assert "-XX:TieredStopAtLevel=1 " in properties(launch(**topic))["spark.driver.defaultJavaOptions"]
        assert (
            properties(launch(spark={"conf": named}, limits=Limits(conf=tuple(named)), **topic)).items()
            >= named.items()
        )

    def test_driver_that_may_copy_files_has_the_optimizing_compiler(self) -> None:
        """AES ran at a hundredth of its speed with the first compiler: 646 MB by https took 56 s with two executors, 19 s with none (fault K1)."""
        for executor in ({"instances": 2}, {"dynamic": {"min": 0, "max": 3}}):
            assert "spark.driver.defaultJavaOptions" not in properties(launch(executor=executor))

    def test_dynamic_allocation_tracks_shuffles(self) -> None:
        """There is no shuffle service."""
        made = properties(launch(executor={"dynamic": {"min": 0, "max": 7}}))

        assert made["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
        assert (made["spark.dynamicAllocation.maxExecutors"], made["spark.dynamicAllocation.initialExecutors"]) == (
            "7",
            "1",
        )

    def test_spark_accesses_only_pods_on_the_api_server(self) -> None:
        """A driver's account has no other rights; each other request would be an error in its log."""
        made = properties(launch(executor={"instances": 1}))
        assert made["spark.kubernetes.executor.disableConfigMap"] == "true"
        assert made["spark.kubernetes.driver.ownPersistentVolumeClaim"] == "false"
        assert made["spark.kubernetes.driver.service.deleteOnTermination"] == "false"

    def test_conf_overrides_derived_settings_but_not_required_ones(self) -> None:
        """A user may choose the heap, but not the driver's address."""
        conf = {"spark.executor.memory": "9g", "spark.driver.port": "1"}
        made = properties(launch(spark={"conf": conf}, limits=Limits(conf=("*",))))

        assert (made["spark.executor.memory"], made["spark.driver.port"]) == ("9g", "7078")


class TestRestrictedPods:
    """Driver, executors and additional containers of a template meet the restricted Pod Security standard."""

    @pytest.mark.parametrize("make", [driver_pod, executor_template])
    def test_no_container_is_root_or_can_become_root(self, make: Any) -> None:
        """This includes every container of every pod."""
        brought = {"template": {"spec": {"containers": [{"name": "side", "image": "x"}], "initContainers": [{"name": "i", "image": "x"}]}}}  # fmt: skip
        pod = make(launch(driver=brought, executor=brought, limits=Limits(sidecars=True, images=("x",))))

        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["enableServiceLinks"] is False
        for item in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
            assert item["securityContext"]["allowPrivilegeEscalation"] is False
            assert item["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert container(pod, pod["spec"]["containers"][0]["name"])["securityContext"]["readOnlyRootFilesystem"] is True

    def test_executors_do_not_access_the_api_server(self) -> None:
        """They have no token; a driver without executors has none either."""
        assert executor_template(launch())["spec"]["automountServiceAccountToken"] is False
        for item in (launch(executor={"instances": 0}), launch(kind="Plan")):
            assert driver_pod(item)["spec"]["automountServiceAccountToken"] is False
        assert driver_pod(launch())["spec"]["automountServiceAccountToken"] is True


class TestTheDriverPod:
    """The operator sets some fields, and leaves the others to the template."""

    def test_driver_gets_its_environment(self) -> None:
        """Spec, address, identity, attempt number, and the path of its termination message."""
        pod = driver_pod(launch(attempt=4, drainTimeoutSeconds=77))
        given = environment(pod)

        assert container(pod)["args"] == ["python", "-m", "backfill_spark", "-f", "/etc/backfill/backfill.yaml"]
        assert (given["BACKFILL_OPERATOR_ATTEMPT"], given["BACKFILL_MASTER"]) == ("4", "cluster")
        assert given["BACKFILL_TERMINATION_LOG"] == container(pod)["terminationMessagePath"]
        assert pod["spec"]["terminationGracePeriodSeconds"] == 77
        # The address has the IP family of the cluster's pods.
        bind = next(variable for variable in container(pod)["env"] if variable["name"] == "BACKFILL_CONTROL_BIND")
        assert bind["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
        assert pod["spec"]["restartPolicy"] == "Never"
        assert {container(pod)[name]["httpGet"]["scheme"] for name in ("readinessProbe", "livenessProbe")} == {"HTTPS"}

    def test_plan_has_no_probes(self) -> None:
        """A plan serves no requests."""
        pod = driver_pod(launch(kind="Plan"))

        assert environment(pod)["BACKFILL_MODE"] == "plan"
        assert "readinessProbe" not in container(pod)

    def test_every_variable_is_read_by_a_driver(self) -> None:
        """A misspelt variable would be silently ignored."""
        for kind in ("Run", "Plan"):
            ours = {name for name in environment(driver_pod(launch(kind=kind))) if name.startswith("BACKFILL_")}
            assert ours <= {f"BACKFILL_{field.upper()}" for field in DriverSettings.model_fields}
            DriverSettings.from_environ({"HOME": "/x"} | environment(driver_pod(launch(kind=kind))))

    def test_template_is_merged_by_name(self) -> None:
        """Containers, variables, volumes and mounts are added, and existing ones are completed."""
        pod = driver_pod(
            launch(
                limits=Limits(service_accounts=("mine",), host_paths=("/lake",), sidecars=True, images=("proxy",)),
                driver={
                    "serviceAccountName": "mine",
                    "template": {
                        "metadata": {"labels": {"user.backfill.dev/team": "a"}, "annotations": {"x": "y"}},
                        "spec": {
                            "nodeSelector": {"disk": "ssd"},
                            "securityContext": {"runAsUser": 1000, "fsGroup": 2000},
                            "tolerations": [{"key": "spot"}],
                            "volumes": [{"name": "lake", "hostPath": {"path": "/lake"}}],
                            "containers": [
                                {
                                    "name": "driver",
                                    "env": [{"name": "AWS_REGION", "value": "eu"}],
                                    "volumeMounts": [{"name": "lake", "mountPath": "/lake"}],
                                },
                                {"name": "side", "image": "proxy"},
                            ],
                        },
                    },
                },
            )
        )

        assert (
            pod["metadata"]["labels"].items() >= {"user.backfill.dev/team": "a", "backfill.dev/role": "driver"}.items()
        )
        assert pod["spec"]["securityContext"]["runAsUser"] == 1000
        assert pod["spec"]["serviceAccountName"] == "mine"
        assert environment(pod).keys() >= {"AWS_REGION", "BACKFILL_MASTER"}
        assert {"lake", "backfill-spec"} <= {volume["name"] for volume in pod["spec"]["volumes"]}
        assert {"/lake", "/tmp"} <= {mount["mountPath"] for mount in container(pod)["volumeMounts"]}
        assert container(pod, "side")["image"] == "proxy"


class TestRefusals:
    """A refusal has the field's path and a hint, and comes before any object is created."""

    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            (template(hostNetwork=True), "spec.driver.template.spec.hostNetwork"),
            (template(serviceAccountName="admin"), "spec.driver.template.spec.serviceAccountName"),
            (template(restartPolicy="Always"), "spec.driver.template.spec.restartPolicy"),
            (template(containers=[{"name": "driver", "image": "x"}]), "spec.driver.template.spec.containers[0].image"),
            (template(containers=[{"name": "driver", "command": ["sh"]}]), "spec.driver.template.spec.containers[0].command"),
            (template(containers=[{"name": "driver", "env": [{"name": "BACKFILL_MODE"}]}]), "spec.driver.template.spec.containers[0].env[0].name"),
            (template(containers=[{"name": "driver", "securityContext": {"privileged": True}}]), "spec.driver.template.spec.containers[0].securityContext.privileged"),
            (template(securityContext={"runAsUser": 0}), "spec.driver.template.spec.securityContext.runAsUser"),
            (template(volumes=[{"name": "backfill-control"}]), "spec.driver.template.spec.volumes[0].name"),
            (template(containers="driver"), "spec.driver.template.spec.containers"),
            (template(containers=[{"image": "x"}]), "spec.driver.template.spec.containers[0].name"),
            ({"driver": {"template": {"metadata": {"ownerReferences": []}}}}, "spec.driver.template.metadata.ownerReferences"),
            ({"driver": {"template": {"sepc": {}}}}, "spec.driver.template.sepc"),
            ({"driver": {"resources": {"limits": {"memory": "lots"}}}}, "spec.driver.resources.limits.memory"),
            ({"driver": {"resources": {"limits": {"memory": "100Mi"}}}}, "spec.driver.resources.limits.memory"),
            ({"driver": {"resources": {"limits": 5}}}, "spec.driver.resources.limits"),
        ],
    )  # fmt: skip
    def test_fields_of_the_operator_are_refused(self, fields: dict[str, Any], path: str) -> None:
        """If they were ignored, the user would believe that they apply."""
        with pytest.raises(ManifestRefusedError) as caught:
            objects(launch(**fields))

        assert caught.value.path == path
        assert len(caught.value.hint.split()) >= 2

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda item: st.lists(item, max_size=3) | st.dictionaries(st.sampled_from(["metadata", "spec", "containers", "name", "env", "volumes", "labels", "securityContext", "driver"]), item, max_size=4), max_leaves=15))  # fmt: skip
    def test_template_gives_a_pod_or_a_refusal(self, thing: Any) -> None:
        """There is no other exception, although the schema accepts every template."""
        if not isinstance(thing, dict):
            return
        launched = launch(driver={"template": thing}, executor={"template": thing})
        try:
            pods = [driver_pod(launched), executor_template(launched)]
        except ManifestRefusedError:
            return
        for pod in pods:
            assert yaml.safe_load(yaml.safe_dump(pod)) == pod
            assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


def _java_properties(text: str) -> dict[str, str]:
    """Read the `name=value` lines like java.util.Properties."""
    made = {}
    for line in text.split("\n")[:-1]:
        name, rest, escaped = "", "", False
        parts, at_value = [[], []], 0
        for character in line:
            if escaped:
                parts[at_value].append({"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(character, character))
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == "=" and not at_value:
                at_value = 1
            else:
                parts[at_value].append(character)
        name, rest = "".join(parts[0]), "".join(parts[1])
        made[name] = rest
    return made
