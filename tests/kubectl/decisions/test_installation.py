"""`doctor` judges the parts of an installation, one line for each."""

from datetime import datetime

import pytest

from backfill_api.crd.schema import open_api_schema
from backfill_kubectl.decisions.installation import (
    Unreadable,
    check_crd,
    check_drivers,
    check_jobs,
    check_leader,
    check_operator,
)

NOW = datetime.fromisoformat("2026-11-26T22:00:00Z")
DENIED = Unreadable("you may not list deployments.apps in namespace backfill-system")


def lease(renewed="2026-11-26T21:59:50Z", holder="operator-1"):
    return {"spec": {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}}


def deployment(ready=2, version="0.1.0", namespaces="shop,stock", selector=""):
    environment = [{"name": "BACKFILL_OPERATOR_NAMESPACES", "value": namespaces}] if namespaces else []
    environment += [{"name": "BACKFILL_OPERATOR_NAMESPACE_SELECTOR", "value": selector}] if selector else []
    containers = [{"image": "registry.example/operator:1", "env": environment}]
    return {
        "metadata": {"name": "backfill", "namespace": "ops", "labels": {"app.kubernetes.io/version": version}},
        "spec": {"replicas": 2, "template": {"spec": {"containers": containers}}}, "status": {"readyReplicas": ready},
    }  # fmt: skip


def driver(image, phase="Running"):
    return {"status": {"phase": phase}, "spec": {"containers": [{"name": "driver", "image": image}]}}


class TestTheCrd:
    """An older CRD drops fields without a message."""

    def test_crd_of_this_version_has_all_fields(self):
        """It is generated from the same models."""
        assert check_crd(open_api_schema(), open_api_schema()).verdict == "ok"

    def test_missing_field_of_an_older_crd_is_named(self):
        """At any depth."""
        older = open_api_schema()
        del older["properties"]["spec"]["properties"]["throttle"]["properties"]["bytesPerSecond"]

        check = check_crd(older, open_api_schema())

        assert check.verdict == "warning"
        assert "lacks spec.throttle.bytesPerSecond" in check.detail
        assert "Upgrade the chart" in check.remedy

    def test_missing_crd_is_a_fault(self):
        """The remedy installs it."""
        assert check_crd(Unreadable("the cluster does not serve it", absent=True), {}).verdict == "fault"
        assert check_crd(DENIED, {}).verdict == "unknown"


class TestTheOperator:
    """Replicas, version, namespaces."""

    @pytest.mark.parametrize(("ready", "verdict"), [(2, "ok"), (1, "warning"), (0, "fault")])
    def test_replicas_decide(self, ready, verdict):
        """One of two is enough to work."""
        check = check_operator([deployment(ready)], "0.1.3")[0]

        assert check.verdict == verdict
        assert f"{ready} of 2 pods ready" in check.detail

    def test_another_minor_version_is_a_warning(self):
        """The older one may not know a field."""
        assert [check.title for check in check_operator([deployment()], "0.2.0") if check.verdict == "warning"] == [
            "versions differ"
        ]

    @pytest.mark.parametrize(("namespaces", "shown"), [("shop,stock", "shop,stock"), ("", "all")])
    def test_watched_namespaces_are_listed(self, namespaces, shown):
        """A Backfill elsewhere is never seen."""
        assert check_operator([deployment(namespaces=namespaces)], "0.1.0")[-1].detail == shown

    @pytest.mark.parametrize(
        ("namespaces", "shown"),
        [("", "those with the labels team=x"), ("shop", "shop and those with the labels team=x")],
    )
    def test_namespaces_with_a_label_are_not_all(self, namespaces, shown):
        """The chart's `watch.namespaceSelector` sets no names, and an operator without names watches all."""
        assert check_operator([deployment(namespaces=namespaces, selector="team=x")], "0.1.0")[-1].detail == shown

    def test_missing_right_is_no_fault(self):
        """The line names verb and resource."""
        assert check_operator(DENIED, "0.1.0")[0].verdict == "unknown"
        assert check_operator([], "0.1.0")[0].verdict == "fault"


class TestTheLeader:
    """Without a leader no Backfill progresses."""

    @pytest.mark.parametrize(
        ("given", "verdict"),
        [
            (lease(), "ok"), (lease("2026-11-26T21:58:00Z"), "fault"), (lease(holder=""), "fault"), (lease("soon"), "warning"),
            (lease(None), "warning"), (lease("2026-11-26T22:00:05Z"), "ok"), (DENIED, "unknown"),
        ],
    )  # fmt: skip
    def test_lease_decides(self, given, verdict):
        """Clocks may differ by some seconds."""
        assert check_leader(given, NOW).verdict == verdict


class TestDriversAndJobs:
    """Drivers keep their version until the next attempt."""

    def test_drivers_of_two_images_are_a_warning(self):
        """Ended pods do not count."""
        pods = [driver("spark:1"), driver("spark:1"), driver("spark:2"), driver("spark:0", "Succeeded")]

        check = check_drivers(pods)

        assert check.detail == "3 pods: 2 with spark:1, 1 with spark:2"
        assert check.verdict == "warning"
        assert check_drivers(pods[:2]).verdict == "ok"

    def test_unreadable_jobs_are_unknown(self):
        """The page has still its other lines."""
        assert [check.verdict for check in check_jobs(DENIED)] == ["unknown"]
