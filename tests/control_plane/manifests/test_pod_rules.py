"""A spec may request only listed pod fields; a refusal names the field and the administrator's setting."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from support.operators.agreement import agreed_pod
from support.operators.observations import spec
from support.repository import ROOT

from backfill_core.cluster_rules.env_rules import NEVER
from backfill_core.cluster_rules.finding import ManifestRefusedError
from backfill_core.cluster_rules.limits import OPTIONAL_POD_FIELDS, Limits, below, image_allowed
from backfill_operator.manifests.attempt import Installation, Launch
from backfill_operator.settings import PREFIX, OperatorSettings

PLAIN = Installation("registry/backfill:1")
DIGEST = "@sha256:" + "0" * 64
AT = "spec.driver.template.spec"
OURS = f"{AT}.containers[0]"


VALUES = yaml.safe_load((ROOT / "charts" / "backfill-operator" / "values.yaml").read_text())


def launch(limits: Limits = PLAIN.limits, **fields: Any) -> Launch:
    """Return a launch under an administrator's limits."""
    return Launch("shop", "orders", "0b5a-uid", 1, "Run", spec(**fields), replace(PLAIN, limits=limits))


def build(limits: Limits = PLAIN.limits, **fields: Any) -> dict[str, Any]:
    """Return the driver's pod, after building all other objects."""
    return agreed_pod(launch(limits, **fields))


def refusal(limits: Limits = PLAIN.limits, **fields: Any) -> ManifestRefusedError:
    """Return the refusal of a spec."""
    with pytest.raises(ManifestRefusedError) as caught:
        build(limits, **fields)
    return caught.value


def pod(**fields: Any) -> dict[str, Any]:
    """Return a driver section with a template for the pod."""
    return {"driver": {"template": {"spec": fields}}}


def ours(**fields: Any) -> dict[str, Any]:
    """Return a driver section with a template for our container."""
    return pod(containers=[{"name": "driver", **fields}])


def side(**fields: Any) -> dict[str, Any]:
    """Return a driver section with an additional container."""
    return pod(containers=[{"name": "side", "image": "registry/backfill:1", **fields}])


def volume(**source: Any) -> dict[str, Any]:
    """Return a driver section with a volume."""
    return pod(volumes=[{"name": "mine", **source}])


def container(made: dict[str, Any], name: str = "driver") -> dict[str, Any]:
    """Return a container by name."""
    return next(container for container in made["spec"]["containers"] if container["name"] == name)


class TestNobodyCanAllow:
    """These fields would take over our process, or give a pod more permissions. No setting of an administrator allows them."""

    GENEROUS = Limits(
        images=("*",), service_accounts=("*",), host_paths=("/",), priority_classes=("*",), pod_fields=OPTIONAL_POD_FIELDS,
        env=("*",), metadata=("*",), conf=("*",), sidecars=True,
    )  # fmt: skip

    @pytest.mark.parametrize(
        ("fields", "path"),
        [
            (pod(hostNetwork=True), f"{AT}.hostNetwork"),
            (pod(hostPID=True), f"{AT}.hostPID"),
            (pod(hostIPC=True), f"{AT}.hostIPC"),
            (pod(hostUsers=True), f"{AT}.hostUsers"),
            (pod(shareProcessNamespace=True), f"{AT}.shareProcessNamespace"),
            (pod(automountServiceAccountToken=True), f"{AT}.automountServiceAccountToken"),
            (pod(serviceAccountName="admin"), f"{AT}.serviceAccountName"),
            (pod(ephemeralContainers=[]), f"{AT}.ephemeralContainers"),
            (pod(aFieldOfTomorrow=1), f"{AT}.aFieldOfTomorrow"),
            (pod(securityContext={"runAsUser": 0}), f"{AT}.securityContext.runAsUser"),
            (pod(securityContext={"runAsUser": "0"}), f"{AT}.securityContext.runAsUser"),
            (pod(securityContext={"runAsGroup": 0}), f"{AT}.securityContext.runAsGroup"),
            (pod(securityContext={"fsGroup": 0}), f"{AT}.securityContext.fsGroup"),
            (pod(securityContext={"supplementalGroups": [1000, 0]}), f"{AT}.securityContext.supplementalGroups"),
            (pod(securityContext={"runAsNonRoot": False}), f"{AT}.securityContext.runAsNonRoot"),
            (pod(securityContext={"seccompProfile": {"type": "Unconfined"}}), f"{AT}.securityContext.seccompProfile"),
            (pod(securityContext={"sysctls": []}), f"{AT}.securityContext.sysctls"),
            (ours(securityContext={"privileged": True}), f"{OURS}.securityContext.privileged"),
            (ours(securityContext={"capabilities": {"add": ["SYS_PTRACE"]}}), f"{OURS}.securityContext.capabilities"),
            (ours(securityContext={"procMount": "Unmasked"}), f"{OURS}.securityContext.procMount"),
            (ours(securityContext={"seccompProfile": {"type": "Unconfined"}}), f"{OURS}.securityContext.seccompProfile"),
            (ours(securityContext={"readOnlyRootFilesystem": False}), f"{OURS}.securityContext.readOnlyRootFilesystem"),
            (ours(image="evil"), f"{OURS}.image"),
            (ours(command=["sh"]), f"{OURS}.command"),
            (ours(args=["sh"]), f"{OURS}.args"),
            (ours(workingDir="/lake"), f"{OURS}.workingDir"),
            (ours(lifecycle={"postStart": {"exec": {"command": ["sh"]}}}), f"{OURS}.lifecycle"),
            (ours(livenessProbe={"exec": {"command": ["sh"]}}), f"{OURS}.livenessProbe"),
            (ours(ports=[{"containerPort": 1, "hostPort": 1}]), f"{OURS}.ports"),
            (ours(volumeDevices=[]), f"{OURS}.volumeDevices"),
            (ours(envFrom=[{"secretRef": {"name": "a"}}]), f"{OURS}.envFrom[0].prefix"),
            (ours(envFrom=[{"prefix": "P", "configMapRef": {"name": "a"}}]), f"{OURS}.envFrom[0].prefix"),
            (ours(envFrom=[{"prefix": "LD_X", "configMapRef": {"name": "a"}}]), f"{OURS}.envFrom[0].prefix"),
            (ours(volumeMounts=[{"name": "a", "mountPath": "/lake", "mountPropagation": "Bidirectional"}]), f"{OURS}.volumeMounts[0].mountPropagation"),
            (ours(volumeMounts=[{"name": "backfill-control", "mountPath": "/lake"}]), f"{OURS}.volumeMounts[0].name"),
            (side(volumeMounts=[{"name": "backfill-control", "mountPath": "/x"}]), f"{OURS}.volumeMounts[0].name"),
            (side(securityContext={"privileged": True}), f"{OURS}.securityContext.privileged"),
            (side(ports=[{"containerPort": 80, "hostPort": 80}]), f"{OURS}.ports[0].hostPort"),
            (side(lifecycle={}), f"{OURS}.lifecycle"),
            (side(image="../evil"), f"{OURS}.image"),
            (pod(volumes=[{"name": "backfill-spec", "emptyDir": {}}]), f"{AT}.volumes[0].name"),
            (volume(hostPath={"path": "/lake/../etc"}), f"{AT}.volumes[0].hostPath.path"),
            ({"driver": {"template": {"metadata": {"finalizers": []}}}}, "spec.driver.template.metadata.finalizers"),
            ({"driver": {"template": {"metadata": {"labels": {"backfill.dev/role": "x"}}}}}, 'spec.driver.template.metadata.labels["backfill.dev/role"]'),
            ({"driver": {"template": {"template": {}}}}, "spec.driver.template.template"),
            ({"driver": {"resources": {"claims": [{"name": "gpu"}]}}}, "spec.driver.resources.claims"),
            ({"driver": {"resources": {"limits": {"devices.example/fuse": 1}}}}, "spec.driver.resources.limits.devices.example/fuse"),
            ({"executor": {"template": {"spec": {"hostNetwork": True}}}}, "spec.executor.template.spec.hostNetwork"),
        ],
    )  # fmt: skip
    def test_dangerous_field_is_always_refused(self, fields: dict[str, Any], path: str) -> None:
        """Each field was once a way out of the pod, or into it."""
        assert refusal(self.GENEROUS, **fields).path == path

    @pytest.mark.parametrize("name", [
        "PYTHONPATH", "PYTHONSTARTUP", "LD_PRELOAD", "LD_AUDIT", "GLIBC_TUNABLES", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS",
        "JDK_JAVA_OPTIONS", "CLASSPATH", "SPARK_CLASSPATH", "SPARK_JAVA_OPT_0", "_SPARK_AUTH_SECRET", "PYSPARK_PYTHON",
        "PYSPARK_SUBMIT_ARGS", "HADOOP_CONF_DIR", "BACKFILL_MODE", "BASH_ENV", "BASH_FUNC_python%%", "ENV", "PATH", "HOME",
        "OPENSSL_CONF", "TZ", "KUBERNETES_SERVICE_HOST", "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES",
    ])  # fmt: skip
    def test_variable_that_determines_the_running_code_is_always_refused(self, name: str) -> None:
        """The loader, Java, Python and the entry point's shell read it before our code runs."""
        assert refusal(self.GENEROUS, **ours(env=[{"name": name, "value": "x"}])).path == f"{OURS}.env[0].name"

    @given(st.sampled_from(NEVER), st.text("ABC_", max_size=4))
    def test_prefix_of_a_dangerous_variable_is_always_refused(self, never: str, more: str) -> None:
        """The keys of a Secret are unknown here: no key may become such a name."""
        prefix = never.rstrip("*") + more
        for beginning in (prefix[: len(prefix) // 2 + 1], prefix):
            if any(beginning.startswith(name.rstrip("*")) or name.rstrip("*").startswith(beginning) for name in NEVER):
                fields = ours(envFrom=[{"prefix": beginning, "secretRef": {"name": "a"}}])
                assert refusal(self.GENEROUS, **fields).path == f"{OURS}.envFrom[0].prefix"

    @pytest.mark.parametrize("where", [
        "/", "/tmp", "/tmp/", "/etc/backfill", "/etc/backfill-control/x", "/etc", "/var", "/var/lib/backfill/.aws", "/opt/backfill/lib",
        "/usr/lib", "//etc", "/lake/../etc", "/./etc", "lake", "",
    ])  # fmt: skip
    def test_mount_over_our_or_the_images_files_is_always_refused(self, where: str) -> None:
        """The mount may be at the folder, below it or above it, in any spelling."""
        fields = ours(volumeMounts=[{"name": "a", "mountPath": where}])
        assert refusal(self.GENEROUS, **fields).path == f"{OURS}.volumeMounts[0].mountPath"

    def test_mount_of_a_python_package_is_always_refused(self) -> None:
        """Python starts in the root folder, and a volume may be mounted at /yaml there."""
        env = {variable["name"]: variable.get("value") for variable in container(build())["env"]}
        assert env["PYTHONSAFEPATH"] == "1"


class TestAnAdministratorMayAllow:
    """The default is a refusal with the name of the setting; with the setting, the pod has the value."""

    @pytest.mark.parametrize(
        ("fields", "path", "setting", "limits"),
        [
            ({"spark": {"image": "registry/other:1"}}, "spec.spark.image", "ALLOWED_IMAGES", Limits(images=("registry/other",))),
            ({"driver": {"serviceAccountName": "loader"}}, "spec.driver.serviceAccountName", "ALLOWED_SERVICE_ACCOUNTS", Limits(service_accounts=("loader",))),
            (pod(priorityClassName="high"), f"{AT}.priorityClassName", "ALLOWED_PRIORITY_CLASSES", Limits(priority_classes=("high",))),
            (pod(nodeName="node-1"), f"{AT}.nodeName", "ALLOWED_POD_FIELDS", Limits(pod_fields=("nodeName",))),
            (pod(runtimeClassName="gvisor"), f"{AT}.runtimeClassName", "ALLOWED_POD_FIELDS", Limits(pod_fields=("runtimeClassName",))),
            (volume(hostPath={"path": "/srv/lake/a"}), f"{AT}.volumes[0].hostPath.path", "ALLOWED_HOST_PATHS", Limits(host_paths=("/srv/lake",))),
            (volume(nfs={"server": "a", "path": "/"}), f"{AT}.volumes[0].nfs", "ALLOWED_VOLUMES", Limits(volumes=("nfs",))),
            (volume(projected={"sources": [{"serviceAccountToken": {"path": "a"}}]}), f"{AT}.volumes[0].projected.sources[0].serviceAccountToken", "ALLOWED_VOLUMES", Limits(volumes=("projected", "serviceAccountToken"))),
            (side(), OURS, "ALLOW_SIDECARS", Limits(sidecars=True)),
            (pod(initContainers=[{"name": "a", "image": "registry/backfill:1"}]), f"{AT}.initContainers[0]", "ALLOW_SIDECARS", Limits(sidecars=True)),
            (ours(env=[{"name": "OSS_REGION", "value": "x"}]), f"{OURS}.env[0].name", "ALLOWED_ENV", Limits(env=("OSS_*",))),
            ({"driver": {"template": {"metadata": {"annotations": {"iam.example/role": "x"}}}}}, 'spec.driver.template.metadata.annotations["iam.example/role"]', "ALLOWED_METADATA", Limits(metadata=("iam.example/role",))),
            ({"spark": {"conf": {"spark.plugins": "x"}}}, 'spec.spark.conf["spark.plugins"]', "ALLOWED_CONF", Limits(conf=("spark.plugins",))),
        ],
    )  # fmt: skip
    def test_setting_allows_the_field(self, fields: dict[str, Any], path: str, setting: str, limits: Limits) -> None:
        """The named settings exist."""
        refused = refusal(**fields)

        assert refused.path == path
        assert f"{PREFIX}{setting}" in refused.hint
        assert setting.lower() in OperatorSettings.model_fields
        (value,) = re.findall(r"limits\.(\w+) of the chart", refused.hint)
        assert value in VALUES["limits"], refused.hint
        assert build(limits, **fields)["kind"] == "Pod"

    @pytest.mark.parametrize("role", ["driver", "executor"])
    @pytest.mark.parametrize(
        "name", ["app", "k8s-app", "role", "queue", "app.kubernetes.io/name", "volcano.sh/queue-name"]
    )
    def test_setting_allows_a_label_of_a_selector(self, name: str, role: str) -> None:
        """A pod with such a label joins another team's Service and NetworkPolicy (fault S8)."""
        given = {role: {"template": {"metadata": {"labels": {name: "x"}}}}}

        refused = refusal(**given)

        assert refused.path == f'spec.{role}.template.metadata.labels["{name}"]'
        assert "user.backfill.dev/" in refused.hint
        assert f"{PREFIX}ALLOWED_METADATA" in refused.hint
        assert build(Limits(metadata=(name,)), **given)
        assert build(
            **{role: {"template": {"metadata": {"labels": {"user.backfill.dev/team": "x"}, "annotations": {"a": "b"}}}}}
        )

    @pytest.mark.parametrize(
        "name",
        [
            "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_CONFIG_FILE", "AWS_PROFILE",
            "AWS_SHARED_CREDENTIALS_FILE", "AWS_CA_BUNDLE", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AZURE_AUTHORITY_HOST",
            "AZURE_FEDERATED_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS",
        ],
    )  # fmt: skip
    def test_setting_allows_an_address_or_token_file_with_its_value(self, name: str) -> None:
        """A client sends the token in the file to the address, so a spec that may choose them sends it to any server (fault S5)."""
        given = ours(env=[{"name": name, "value": "https://sts.example"}])
        limits = Limits(env=(f"{name}=https://sts.example",))

        assert refusal(**given).path == f"{OURS}.env[0].name"
        assert {"name": name, "value": "https://sts.example"} in container(build(limits, **given))["env"]
        assert refusal(limits, **ours(env=[{"name": name, "value": "https://other.example"}])).path.endswith("name")
        source = {"secretKeyRef": {"name": "store", "key": "key"}}
        assert refusal(limits, **ours(env=[{"name": name, "valueFrom": source}])).path.endswith("name")

    def test_setting_allows_keys_of_a_secret_by_their_prefix(self) -> None:
        """A key `ENDPOINT_URL_STS` would become an address; the names of keys are unknown when the pod is created."""
        given = ours(envFrom=[{"prefix": "AWS_", "secretRef": {"name": "store"}}])

        assert (refusal(**given).path, "AWS_*" in refusal(**given).hint) == (f"{OURS}.envFrom[0].prefix", True)
        assert container(build(Limits(env=("AWS_*",)), **given))["envFrom"]

    @pytest.mark.parametrize(
        "name",
        [
            "fs.azure.account.oauth2.client.endpoint", "fs.azure.account.oauth2.token.file", "fs.azure.account.oauth2.msi.authority",
            "fs.gs.auth.service.account.json.keyfile", "fs.gs.auth.workload.identity.federation.credential.config.file",
            "fs.gs.token.server.url", "fs.s3a.assumed.role.sts.endpoint",
        ],
    )  # fmt: skip
    def test_setting_allows_a_spark_setting_that_receives_a_token(self, name: str) -> None:
        """It is the Hadoop name of the same variable."""
        refused = refusal(spark={"conf": {f"spark.hadoop.{name}": "https://other.example"}})

        assert f"{PREFIX}ALLOWED_CONF" in refused.hint

    def test_allowed_sidecar_is_restricted_like_the_driver(self) -> None:
        """Its own fields do not change that, and its image must be allowed."""
        made = build(Limits(sidecars=True, images=("registry/proxy",)), **side(image="registry/proxy:2", args=["x"]))

        assert container(made, "side")["securityContext"] == {
            "allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        }  # fmt: skip
        assert refusal(Limits(sidecars=True), **side(image="registry/proxy:2")).path == f"{OURS}.image"

    @pytest.mark.parametrize(
        ("pattern", "image", "allowed"),
        [
            ("registry/spark", "registry/spark", True), ("registry/spark", "registry/spark:4", True),
            ("registry/spark", f"registry/spark:4{DIGEST}", True), ("registry/spark", "registry/spark-evil:4", False),
            ("registry/spark", "registry/spark/evil:4", False), ("registry", "registry:5000/evil", False),
            ("registry/spark:4", "registry/spark:4", True), ("registry/spark:4", "registry/spark:5", False),
            ("registry/spark:4", f"registry/spark:4{DIGEST}", False), ("registry:5000/spark", "registry:5000/spark:4", True),
            ("registry/team/*", "registry/team/a/b:1", True), ("registry/team/*", "registry/team/../evil:1", False),
            ("registry/team/*", "registry/teamevil:1", False), ("*", "anything:1", True), ("*", "a b", False),
            ("spark", "docker.io/library/spark", False),
        ],
    )  # fmt: skip
    def test_image_matches_the_pattern(self, pattern: str, image: str, allowed: bool) -> None:
        """A name with the same prefix may belong to another registry, or be another image."""
        assert image_allowed(image, (pattern,)) is allowed

    @pytest.mark.parametrize(
        ("path", "allowed"), [("/srv", True), ("/srv/", True), ("/srv/a", True), ("/srv2", False), ("/srv/../etc", False), ("srv", False), ("/", False)]
    )  # fmt: skip
    def test_setting_allows_a_folder_of_a_node(self, path: str, allowed: bool) -> None:
        """Its subfolders are allowed too."""
        assert below(path, ("/srv",)) is allowed


class TestWhatMostJobsNeed:
    """Every user may request these fields without an administrator."""

    def test_credentials_and_volumes_are_allowed(self) -> None:
        """They come from Secrets and claims of the namespace."""
        key = {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": {"name": "store", "key": "key"}}}
        given = {
            **pod(
                nodeSelector={"disk": "ssd"}, tolerations=[{"key": "spot"}], affinity={}, imagePullSecrets=[{"name": "a"}], hostUsers=False,
                securityContext={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000, "runAsNonRoot": True},
                volumes=[{"name": "a", "persistentVolumeClaim": {"claimName": "lake"}}, {"name": "b", "emptyDir": {}}],
                containers=[{
                    "name": "driver", "env": [{"name": "AWS_REGION", "value": "eu"}, key],
                    "volumeMounts": [{"name": "a", "mountPath": "/lake"}, {"name": "b", "mountPath": "/mnt/b", "subPath": "x"}],
                    "securityContext": {"allowPrivilegeEscalation": False},
                }],
            ),
            "spark": {"conf": {"spark.sql.shuffle.partitions": "8", "spark.hadoop.fs.s3a.endpoint": "https://store", "spark.memory.fraction": "0.5"}},
        }  # fmt: skip

        made = build(**given)

        assert {variable["name"] for variable in container(made)["env"]} >= {
            "AWS_REGION",
            "AWS_SECRET_ACCESS_KEY",
            "BACKFILL_MASTER",
        }
        assert {mount["mountPath"] for mount in container(made)["volumeMounts"]} >= {"/lake", "/mnt/b", "/tmp"}

    def test_installations_own_image_and_account_are_allowed_by_name(self) -> None:
        """A user may repeat the defaults."""
        made = build(spark={"image": PLAIN.image}, driver={"serviceAccountName": PLAIN.service_account})
        assert made["spec"]["serviceAccountName"] == PLAIN.service_account


class TestTheTargetOutlivesItsPods:
    """`Complete` would be wrong if the table was deleted with its pod."""

    def given(self, path: str, **source: Any) -> dict[str, Any]:
        """Return a spec with a target, and a volume at /lake of both pods."""
        lake = {"name": "lake", **source}
        mount = [{"name": "lake", "mountPath": "/lake/"}]
        sections = {
            name: {"template": {"spec": {"volumes": [lake], "containers": [{"name": name, "volumeMounts": mount}]}}}
            for name in ("driver", "executor")
        }
        return {"target": {"delta": {"path": path}}, **sections}

    @pytest.mark.parametrize("path", [
        "/tmp/a", "/tmp", "file:///tmp/a", "file:/var/lib/backfill/a", "/var/lib/backfill/../backfill/a", "~/a", "/dev/shm/a", "/lake/a", "/lake",
    ])  # fmt: skip
    @pytest.mark.parametrize("instances", [0, 1])
    def test_target_in_a_folder_of_the_pod_is_refused(self, path: str, instances: int) -> None:
        """Such folders are its scratch volume, its shared memory, and an emptyDir of the template."""
        fields = self.given(path, emptyDir={})
        fields["executor"]["instances"] = instances
        assert refusal(**fields).path == "spec.target.delta.path"

    def test_target_in_a_folder_of_executors_is_refused(self) -> None:
        """Executors write the rows."""
        fields = self.given("/lake/a", persistentVolumeClaim={"claimName": "lake"})
        fields["executor"] = self.given("/lake/a", emptyDir={})["executor"]
        assert refusal(**fields).path == "spec.target.delta.path"

    @pytest.mark.parametrize("path", ["s3a://tmp/a", "/lake/a", "/lakes/a", "/tmpfs/a", "file:/lake/a"])
    def test_lasting_target_is_accepted(self, path: str) -> None:
        """It is in a store, in a claim, or in a folder that other tools add to the pod."""
        assert build(**self.given(path, persistentVolumeClaim={"claimName": "lake"}))["kind"] == "Pod"


class TestConf:
    """Settings may concern speed, memory and stores. Settings that load code, create pods or choose identities are refused."""

    @pytest.mark.parametrize("name", [
        "spark.plugins", "spark.jars", "spark.jars.packages", "spark.files", "spark.archives", "spark.submit.pyFiles", "spark.extraListeners",
        "spark.driver.extraJavaOptions", "spark.executor.defaultJavaOptions", "spark.driver.extraClassPath", "spark.executorEnv.LD_PRELOAD",
        "spark.sql.execution.pyspark.python", "spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.sql.queryExecutionListeners", "spark.sql.cache.serializer",
        "spark.sql.sources.commitProtocolClass", "spark.sql.hive.metastore.jars", "spark.sql.adaptive.customCostEvaluatorClass",
        "spark.kubernetes.executor.secrets.a", "spark.kubernetes.executor.secretKeyRef.A", "spark.kubernetes.executor.volumes.hostPath.a.mount.path",
        "spark.kubernetes.executor.pod.featureSteps", "spark.kubernetes.allocation.pods.allocator", "spark.kubernetes.executor.scheduler.name",
        "spark.redaction.regex", "spark.sql.redaction.options.regex", "spark.authenticate", "spark.ssl.enabled", "spark.ui.enabled",
        "spark.ui.filters", "spark.eventLog.dir", "spark.metrics.conf", "spark.shuffle.manager", "spark.shuffle.sort.io.plugin.class",
        "spark.hadoop.fs.s3a.aws.credentials.provider", "spark.hadoop.fs.s3a.impl", "spark.hadoop.fs.default.name",
        "spark.hadoop.fs.s3a.custom.signers", "spark.hadoop.fs.s3a.audit.service.classname", "spark.hadoop.fs.trash.classname",
        "spark.hadoop.fs.azure.keyprovider.a", "spark.hadoop.hadoop.security.credential.provider.path",
        "spark.delta.logStore.class", "spark.python.worker.module", "spark.pyspark.python", "spark.local.dir", "spark.serializer", "spark.log.level",
        "spark.something.of.tomorrow",
    ])  # fmt: skip
    def test_setting_is_refused_with_the_administrators_setting(self, name: str) -> None:
        """The hint names the setting that would allow it."""
        refused = refusal(spark={"conf": {name: "x"}})
        assert (refused.path, "BACKFILL_OPERATOR_ALLOWED_CONF" in refused.hint) == (f'spec.spark.conf["{name}"]', True)

    def test_value_with_a_variable_is_refused(self) -> None:
        """Spark and Hadoop would insert a credential of the process, and send it to an address of the spec."""
        conf = {"spark.hadoop.fs.s3a.endpoint": "https://${env.AWS_SECRET_ACCESS_KEY}.example"}
        assert refusal(TestNobodyCanAllow.GENEROUS, spark={"conf": conf}).message == "refers to a variable with ${"
