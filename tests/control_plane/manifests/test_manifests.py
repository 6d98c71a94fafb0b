"""The objects of one attempt: legal names, the right owner, never root, and nothing that a template may take over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.operators.crd_rows import of_a_topic
from support.operators.observations import TABLES, spec

from backfill_api.load import load_backfill
from backfill_operator.manifests.attempt import Installation, Launch, ManifestRefusedError
from backfill_operator.manifests.config_map import config_map
from backfill_operator.manifests.driver_pod import driver_pod, executor_template
from backfill_operator.manifests.rules.limits import Limits
from backfill_operator.manifests.secret import Identity, secret
from backfill_operator.manifests.service import service
from backfill_operator.manifests.spark_conf import properties, properties_text
from backfill_spark.settings import DriverSettings

IDENTITY = Identity("certificate", "key", "token", "rpc")


def launch(name: str = "orders", attempt: int = 1, **fields: Any) -> Launch:
    """Return a launch of a valid spec."""
    kind = fields.pop("kind", "Run")
    limits = fields.pop("limits", Limits())
    controls = {one: fields.pop(one) for one in ("paused", "rows_per_second", "bytes_per_second") if one in fields}
    return Launch(
        "shop", name, "0b5a-uid", attempt, kind, spec(**fields), Installation("backfill:1", limits=limits), **controls
    )


def objects(one: Launch) -> list[dict[str, Any]]:
    """Return all four."""
    return [config_map(one), secret(one, IDENTITY), service(one), driver_pod(one)]


def container(pod: dict[str, Any], name: str = "driver") -> dict[str, Any]:
    """Return a container by name."""
    return next(one for one in pod["spec"]["containers"] if one["name"] == name)


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """Return the driver's variables."""
    return {one["name"]: one.get("value", "") for one in container(pod)["env"]}


def template(**pod_spec: Any) -> dict[str, Any]:
    """Return the driver section with a template."""
    return {"driver": {"template": {"spec": pod_spec}}}


class TestEveryObject:
    """Found by label, gone with its owner."""

    @given(st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,100}[a-z0-9])?", fullmatch=True), st.integers(1, 10**8))
    def test_belongs_to_the_attempt(self, name: str, attempt: int) -> None:
        """Owned by UID, so that a namesake made again has nothing to do with it."""
        for one in objects(launch(name, attempt)):
            meta = one["metadata"]
            (owner,) = meta["ownerReferences"]
            assert (owner["uid"], owner["controller"], owner["name"]) == ("0b5a-uid", True, name)
            assert len(meta["name"]) <= 63
            assert meta["labels"]["backfill.dev/attempt"] == str(attempt)
            assert all(len(value) <= 63 for value in meta["labels"].values())
        assert len({one["metadata"]["name"] for one in objects(launch(name, attempt))}) == 1

    def test_is_left_out_of_backups(self) -> None:
        """Velero reads this label; the target holds all that a job needs to resume (fault C5)."""
        made = [one["metadata"]["labels"] for one in (*objects(launch()), executor_template(launch()))]

        assert {labels.get("velero.io/exclude-from-backup") for labels in made} == {"true"}

    def test_is_the_same_for_the_same_launch(self) -> None:
        """A repeated try is one try."""
        assert objects(launch()) == objects(launch())

    def test_the_service_selects_this_driver_only(self) -> None:
        """Not its executors, not the attempt before."""
        labels = driver_pod(launch())["metadata"]["labels"]
        selector = service(launch())["spec"]["selector"]

        assert selector.items() <= labels.items()
        assert not selector.items() <= executor_template(launch())["metadata"]["labels"].items()
        assert not selector.items() <= driver_pod(launch(attempt=2))["metadata"]["labels"].items()
        assert service(launch())["spec"]["clusterIP"] == "None"
        assert service(launch())["spec"]["publishNotReadyAddresses"] is True


class TestWhatTheDriverReads:
    """The same document as a local run reads."""

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"throttle": {"rowsPerSecond": 5}, "desiredState": "Paused", "suspend": True},
            {"transform": {"select": ["id", "upper(`größe`) AS x -- \t\u0007"], "where": "a > '\"\\n'"}},
            {"after": "Follow", "verify": "Final", "spark": {"conf": {"spark.sql.ansi.enabled": "true"}}},
        ],
    )
    def test_can_be_loaded_and_has_the_same_hash(self, fields: dict[str, Any]) -> None:
        """Another hash would be another job: the driver would refuse its own state."""
        one = launch(**fields)
        document = {"apiVersion": "backfill.dev/v1alpha1", "kind": "Backfill", "metadata": {"name": "orders", "namespace": "shop"}, "spec": TABLES | fields}  # fmt: skip

        read = load_backfill(config_map(one)["data"]["backfill.yaml"])

        assert read.spec_hash == load_backfill(document).spec_hash
        assert (read.spec.after, read.spec.verify, read.spec.spark.conf) == (
            one.spec.after,
            one.spec.verify,
            one.spec.spark.conf,
        )

    def test_has_the_controls_that_are_in_force_now(self) -> None:
        """Those of the spec and the override together; the spec alone does not count."""
        one = launch(desiredState="Running", throttle={"rowsPerSecond": 9}, paused="All")

        read = load_backfill(config_map(one)["data"]["backfill.yaml"]).spec

        assert (read.desired_state, read.pause.scope, read.throttle.rows_per_second) == ("Paused", "All", None)

    def test_has_the_limits_that_are_in_force_now(self) -> None:
        """Of rows, of bytes, or of both."""
        for rows, size_bytes in ((5, None), (None, 7), (5, 7)):
            one = launch(throttle={"rowsPerSecond": 9}, rows_per_second=rows, bytes_per_second=size_bytes)
            read = load_backfill(config_map(one)["data"]["backfill.yaml"]).spec.throttle
            assert (read.rows_per_second, read.bytes_per_second) == (rows, size_bytes)

    @given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=40), max_size=5))
    def test_properties_survive_their_file(self, values: dict[str, str]) -> None:
        """Java unescapes what was escaped here; a value that is cut at a `#` would be believed."""
        assert _java_properties(properties_text(values)) == values


class TestSpark:
    """What must be set is set; what the spec says about the rest wins."""

    def test_a_client_in_the_pod_with_executors_of_its_own(self) -> None:
        """Executors are owned by the driver pod, reach it by the Service and authenticate."""
        made = properties(launch(executor={"instances": 3}))

        assert made["spark.master"] == "k8s://https://kubernetes.default.svc"
        assert made["spark.driver.host"] == "orders-1-driver.shop.svc"
        assert made["spark.kubernetes.driver.pod.name"] == "orders-1-driver"
        assert (made["spark.executor.instances"], made["spark.authenticate"]) == ("3", "true")
        assert made["spark.kubernetes.executor.enablePollingWithResourceVersion"] == "true"
        assert made["spark.kubernetes.executor.label.backfill.dev/role"] == "executor"

    def test_rows_are_encrypted_where_the_administrator_says_so(self) -> None:
        """Between pods and on disk; a driver without executors has its disk only. A spec cannot take it back."""
        conf = {"spark.network.crypto.enabled": "false", "spark.io.encryption.enabled": "false"}
        one = launch(spark={"conf": conf}, limits=Limits(conf=("*",)))
        made = properties(replace(one, installation=replace(one.installation, encrypt=True)))
        alone = launch(executor={"instances": 0})
        disk = properties(replace(alone, installation=replace(alone.installation, encrypt=True)))

        assert (made["spark.network.crypto.enabled"], made["spark.io.encryption.enabled"]) == ("true", "true")
        assert made["spark.network.crypto.saslFallback"] == "false"
        assert ("spark.network.crypto.enabled" in disk, disk["spark.io.encryption.enabled"]) == (False, "true")
        assert "spark.io.encryption.enabled" not in properties(launch())

    def test_executors_know_their_driver_by_a_file(self) -> None:
        """A secret in a variable is read by all who may read pods; of the Secret an executor has this and nothing else."""
        made = properties(launch(executor={"instances": 3}))
        pod = executor_template(launch())
        (volume,) = [one for one in pod["spec"]["volumes"] if "secret" in one]
        (mount,) = [one for one in container(pod, "executor")["volumeMounts"] if one["name"] == volume["name"]]
        (item,) = volume["secret"]["items"]

        assert made["spark.authenticate.secret.file"] == f"{mount['mountPath']}/{item['path']}"
        assert secret(launch(), IDENTITY)["stringData"][item["key"]] == "rpc"
        # Spark reads the file on Kubernetes only, and an executor does not know its master before it has talked to it.
        assert {"name": "JAVA_TOOL_OPTIONS", "value": f"-Dspark.master={made['spark.master']}"} in container(
            pod, "executor"
        )["env"]
        assert volume["secret"]["secretName"] == secret(launch(), IDENTITY)["metadata"]["name"]

    @pytest.mark.parametrize("fields", [{"executor": {"instances": 0}}, {"kind": "Plan"}])
    def test_without_executors_the_driver_does_the_work(self, fields: dict[str, Any]) -> None:
        """With as many threads as it has cores."""
        made = properties(launch(driver={"resources": {"limits": {"cpu": "1500m", "memory": "4Gi"}}}, **fields))

        assert made["spark.master"] == "local[2]"
        assert "spark.kubernetes.executor.podTemplateFile" not in made
        assert "spark.driver.defaultJavaOptions" not in made

    def test_driver_of_a_topic_with_executors_compiles_once(self) -> None:
        """It moves no rows; the spec may say otherwise."""
        named = {"spark.driver.defaultJavaOptions": "-XX:+TieredCompilation"}
        topic = {key: value for key, value in of_a_topic().items() if key in ("source", "target", "strategy")}

        assert "-XX:TieredStopAtLevel=1 " in properties(launch(**topic))["spark.driver.defaultJavaOptions"]
        assert (
            properties(launch(spark={"conf": named}, limits=Limits(conf=tuple(named)), **topic)).items()
            >= named.items()
        )

    def test_driver_that_may_copy_files_has_the_optimizing_compiler(self) -> None:
        """With the first one AES ran at a hundredth: 646 MB by https took 56 s with two executors, 19 s with none (fault K1)."""
        for executor in ({"instances": 2}, {"dynamic": {"min": 0, "max": 3}}):
            assert "spark.driver.defaultJavaOptions" not in properties(launch(executor=executor))

    def test_executors_by_demand(self) -> None:
        """There is no shuffle service, so shuffles are tracked."""
        made = properties(launch(executor={"dynamic": {"min": 0, "max": 7}}))

        assert made["spark.dynamicAllocation.shuffleTracking.enabled"] == "true"
        assert (made["spark.dynamicAllocation.maxExecutors"], made["spark.dynamicAllocation.initialExecutors"]) == (
            "7",
            "1",
        )

    def test_it_asks_the_api_server_for_pods_alone(self) -> None:
        """A driver's account has rights over nothing else; each other question would be an error in its log."""
        made = properties(launch(executor={"instances": 1}))
        assert made["spark.kubernetes.executor.disableConfigMap"] == "true"
        assert made["spark.kubernetes.driver.ownPersistentVolumeClaim"] == "false"
        assert made["spark.kubernetes.driver.service.deleteOnTermination"] == "false"

    def test_conf_wins_over_what_was_derived_and_loses_against_what_must_be(self) -> None:
        """A heap is a matter of taste, the driver's address is not."""
        conf = {"spark.executor.memory": "9g", "spark.driver.port": "1"}
        made = properties(launch(spark={"conf": conf}, limits=Limits(conf=("*",))))

        assert (made["spark.executor.memory"], made["spark.driver.port"]) == ("9g", "7078")


class TestRestrictedPods:
    """The restricted Pod Security standard, for the driver, its executors, and what a template brings along."""

    @pytest.mark.parametrize("make", [driver_pod, executor_template])
    def test_nothing_is_root_or_may_become_it(self, make: Any) -> None:
        """Every container of every pod."""
        brought = {"template": {"spec": {"containers": [{"name": "side", "image": "x"}], "initContainers": [{"name": "i", "image": "x"}]}}}  # fmt: skip
        pod = make(launch(driver=brought, executor=brought, limits=Limits(sidecars=True, images=("x",))))

        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["enableServiceLinks"] is False
        for one in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
            assert one["securityContext"]["allowPrivilegeEscalation"] is False
            assert one["securityContext"]["capabilities"]["drop"] == ["ALL"]
        assert container(pod, pod["spec"]["containers"][0]["name"])["securityContext"]["readOnlyRootFilesystem"] is True

    def test_executors_have_no_business_with_the_api_server(self) -> None:
        """No token; no more has a driver that makes none."""
        assert executor_template(launch())["spec"]["automountServiceAccountToken"] is False
        for one in (launch(executor={"instances": 0}), launch(kind="Plan")):
            assert driver_pod(one)["spec"]["automountServiceAccountToken"] is False
        assert driver_pod(launch())["spec"]["automountServiceAccountToken"] is True


class TestTheDriverPod:
    """What the operator sets, and what it leaves to the template."""

    def test_is_started_with_what_only_its_surroundings_know(self) -> None:
        """Spec, address, identity, number, and where to leave its termination message."""
        pod = driver_pod(launch(attempt=4, drainTimeoutSeconds=77))
        given = environment(pod)

        assert container(pod)["args"] == ["python", "-m", "backfill_spark", "-f", "/etc/backfill/backfill.yaml"]
        assert (given["BACKFILL_OPERATOR_ATTEMPT"], given["BACKFILL_MASTER"]) == ("4", "cluster")
        assert given["BACKFILL_TERMINATION_LOG"] == container(pod)["terminationMessagePath"]
        assert pod["spec"]["terminationGracePeriodSeconds"] == 77
        # Of whatever family the cluster gives its pods.
        bind = next(one for one in container(pod)["env"] if one["name"] == "BACKFILL_CONTROL_BIND")
        assert bind["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
        assert pod["spec"]["restartPolicy"] == "Never"
        assert {container(pod)[name]["httpGet"]["scheme"] for name in ("readinessProbe", "livenessProbe")} == {"HTTPS"}

    def test_a_plan_serves_nothing(self) -> None:
        """So it is not probed."""
        pod = driver_pod(launch(kind="Plan"))

        assert environment(pod)["BACKFILL_MODE"] == "plan"
        assert "readinessProbe" not in container(pod)

    def test_every_variable_is_one_that_a_driver_reads(self) -> None:
        """A misspelt one would be ignored in silence."""
        for kind in ("Run", "Plan"):
            ours = {name for name in environment(driver_pod(launch(kind=kind))) if name.startswith("BACKFILL_")}
            assert ours <= {f"BACKFILL_{field.upper()}" for field in DriverSettings.model_fields}
            DriverSettings.from_environ({"HOME": "/x"} | environment(driver_pod(launch(kind=kind))))

    def test_a_template_is_merged_by_name(self) -> None:
        """Containers, variables, volumes and mounts are added; what is there is completed."""
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
        assert {"lake", "backfill-spec"} <= {one["name"] for one in pod["spec"]["volumes"]}
        assert {"/lake", "/tmp"} <= {one["mountPath"] for one in container(pod)["volumeMounts"]}
        assert container(pod, "side")["image"] == "proxy"


class TestRefusals:
    """With the path of the field and the hint, before anything is made."""

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
    def test_what_belongs_to_the_operator_is_refused(self, fields: dict[str, Any], path: str) -> None:
        """Ignoring it would be believing that it counts."""
        with pytest.raises(ManifestRefusedError) as caught:
            objects(launch(**fields))

        assert caught.value.path == path
        assert len(caught.value.hint.split()) >= 2

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8), lambda one: st.lists(one, max_size=3) | st.dictionaries(st.sampled_from(["metadata", "spec", "containers", "name", "env", "volumes", "labels", "securityContext", "driver"]), one, max_size=4), max_leaves=15))  # fmt: skip
    def test_a_template_makes_a_pod_or_a_refusal(self, thing: Any) -> None:
        """Never another exception: the schema lets every template through."""
        if not isinstance(thing, dict):
            return
        one = launch(driver={"template": thing}, executor={"template": thing})
        try:
            pods = [driver_pod(one), executor_template(one)]
        except ManifestRefusedError:
            return
        for pod in pods:
            assert yaml.safe_load(yaml.safe_dump(pod)) == pod
            assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


def _java_properties(text: str) -> dict[str, str]:
    """Read the `name=value` lines as java.util.Properties does."""
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
