"""A spec is checked against the operator's limits without a cluster: all findings at once, each with its remedy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.operators.observations import spec
from support.repository import ROOT

from backfill_api.load import load_backfill
from backfill_core.cluster_rules.findings import findings
from backfill_core.cluster_rules.limits import Limits, Policy

AT = "spec.driver.template.spec"


def found(**fields: Any) -> dict[str, str]:
    """Return each finding of a spec under the default policy, by its path."""
    return {finding.path: str(finding) for finding in findings(spec(**fields))}


def driver(**pod: Any) -> dict[str, Any]:
    """Return a driver section with a template for the pod."""
    return {"template": {"spec": pod}}


class TestAllFindings:
    """A user corrects a file once, so no finding hides another one."""

    def test_each_field_that_the_operator_refuses_is_found(self) -> None:
        """The operator stops at the first one."""
        container = {
            "name": "driver",
            "env": [{"name": "LD_PRELOAD", "value": "x"}, {"name": "OSS_REGION", "value": "x"}, {"value": "x"}],
            "volumeMounts": [{"name": "a", "mountPath": "/etc"}, {"name": "b"}],
            "command": ["sh"],
        }
        given = {
            "spark": {"image": "other:1", "conf": {"spark.plugins": "x", "spark.ui.enabled": "true"}},
            "driver": driver(containers=[container], hostNetwork=True, volumes=[{"name": "a", "nfs": {}}])
            | {"serviceAccountName": "loader", "resources": {"limits": {"memory": "1Mi"}}},
            "executor": {"resources": {"requests": {"cpu": "much"}}},
        }

        assert set(found(**given)) == {
            'spec.spark.conf["spark.plugins"]', 'spec.spark.conf["spark.ui.enabled"]', "spec.spark.image",
            "spec.driver.serviceAccountName", "spec.driver.resources.limits.memory", "spec.executor.resources.cpu",
            f"{AT}.hostNetwork", f"{AT}.volumes[0].nfs", f"{AT}.containers[0].command", f"{AT}.containers[0].env[0].name",
            f"{AT}.containers[0].env[1].name", f"{AT}.containers[0].env[2].name",
            f"{AT}.containers[0].volumeMounts[0].mountPath", f"{AT}.containers[0].volumeMounts[1].mountPath",
        }  # fmt: skip

    @pytest.mark.parametrize("part", ["metadata", "spec"])
    def test_part_that_is_no_mapping_hides_no_other_part(self, part: str) -> None:
        """A template is not read by the models, so it may hold any value."""
        template = {"metadata": {"labels": {"app": "x"}}, "spec": {"hostPID": True}} | {part: "odd"}

        paths = found(driver={"template": template})

        other = 'metadata.labels["app"]' if part == "spec" else "spec.hostPID"
        assert set(paths) == {f"spec.driver.template.{part}", f"spec.driver.template.{other}"}

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.sampled_from(["driver", "emptyDir", "/lake", "name"]),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["metadata", "spec", "containers", "name", "env", "volumes", "volumeMounts", "mountPath", "emptyDir", "securityContext", "labels"]
                ),
                inner,
                max_size=4,
            ),
            max_leaves=20,
        )
    )  # fmt: skip
    def test_no_template_breaks_the_check(self, value: Any) -> None:
        """Every template that the models accept gets an answer."""
        assert isinstance(findings(spec(driver={"template": {"spec": value}}, target={"type": "Delta", "delta": {"path": "/lake/a"}})), tuple)  # fmt: skip


class TestAFinding:
    """It names the field, the value, the remedy, and the person who may allow the value."""

    def test_value_that_an_administrator_may_allow_names_the_setting(self) -> None:
        """The chart's value and the operator's variable."""
        assert found(spark={"image": "other:1"})["spec.spark.image"] == (
            'spec.spark.image: names an image that is not allowed (got "other:1"); leave it out, or have an administrator '
            "add it to limits.allowedImages of the chart (BACKFILL_OPERATOR_ALLOWED_IMAGES)"
        )

    def test_value_that_cannot_be_allowed_names_only_the_remedy(self) -> None:
        """No setting would help."""
        (finding,) = findings(spec(driver=driver(hostNetwork=True)))
        assert (finding.remedy, finding.permission) == ("remove it", "")

    def test_allowed_value_is_no_finding(self) -> None:
        """A user who knows the installation's settings passes them."""
        policy = Policy("own:1", "loader", Limits(conf=("spark.plugins",)))
        given = {
            "spark": {"image": "own:1", "conf": {"spark.plugins": "x"}},
            "driver": {"serviceAccountName": "loader"},
        }

        assert findings(spec(**given), policy) == ()

    def test_secret_in_the_environment_is_not_repeated(self) -> None:
        """A warning may be printed in a log of CI."""
        env = [{"name": "AWS_SECRET_ACCESS_KEY", "value": "hunter2"}, {"name": "MY_SECRET", "value": "hunter2"}]
        given = driver(containers=[{"name": "driver", "env": env}])

        assert len(found(driver=given)) == 3
        assert "hunter2" not in "".join(found(driver=given).values())


class TestExamples:
    """A reader copies an example to a cluster."""

    @pytest.mark.parametrize("name", ["orders.yaml", "customers-kafka.yaml"])
    def test_example_of_the_command_line_has_only_relative_paths(self, name: str) -> None:
        """Its folders are those of a laptop; nothing else keeps it from a cluster."""
        manifest = load_backfill((ROOT / "examples" / name).read_text())
        assert {finding.message for finding in findings(manifest.spec)} == {
            "is relative, and a pod has no folder that it could be relative to"
        }


class TestAFlip:
    """A pod must run no executable that a spec names."""

    def test_command_is_refused_and_a_name_of_a_catalog_is_not(self) -> None:
        """The command line may run it on the user's own machine."""
        refused = found(switch={"flip": {"type": "Command", "command": ["/bin/sh"]}})
        allowed = found(switch={"flip": {"type": "HiveTable", "name": "sales.orders"}})

        assert list(refused) == ["spec.switch.flip.type"]
        assert "runs an executable" in refused["spec.switch.flip.type"]
        assert not allowed

    def test_a_source_that_follows_the_target_is_accepted(self) -> None:
        """An attempt copies back after the flip."""
        assert found(switch={"keepSource": "Following"}, strategy={"type": "Replica"}, after="Follow") == {}


class TestScratch:
    """An administrator who allows no claims allows none by another field."""

    def test_volume_of_a_type_that_is_not_allowed_is_found(self) -> None:
        """A size alone limits the operator's own volume."""
        only_secrets = Policy(limits=Limits(volumes=("secret",)))
        of_class, claim = {"size": "1Gi", "storageClassName": "fast"}, {"claimName": "scratch"}

        assert [finding.path for finding in findings(spec(scratch=of_class), only_secrets)] == [
            "spec.scratch.storageClassName"
        ]
        [finding] = findings(spec(scratch=claim), only_secrets)
        assert str(finding).startswith("spec.scratch.claimName: needs a volume of the type persistentVolumeClaim")
        assert "limits.allowedVolumes" in finding.permission
        assert findings(spec(scratch={"size": "1Gi"}), only_secrets) == ()
        assert not found(scratch=of_class) | found(scratch=claim)

    @pytest.mark.parametrize("path", ["events", "~/events", "/tmp/events"])
    def test_event_log_that_no_one_can_read_later_is_found(self, path: str) -> None:
        """A history server reads it after the pod is deleted."""
        assert list(found(spark={"eventLog": {"path": path}})) == ["spec.spark.eventLog.path"]
