"""The chart's objects for Prometheus and Grafana: off by default, selectable by labels, and connected to the operator."""

import json

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import RELEASE, SYSTEM, of_kind, only, rendered
from support.cluster.looked_up import looked_up
from support.monitoring.queries import ALERTS, DASHBOARDS

KINDS = ("ServiceMonitor", "PrometheusRule")
ALL = {part: {"enabled": True} for part in ("serviceMonitor", "prometheusRule", "dashboard")}


def monitoring(**parts):
    """Return the objects that these parts add to an installation."""
    usual = rendered()
    return [object_ for object_ in rendered(monitoring=parts) if object_ not in usual]


class TestByDefault:
    def test_chart_needs_no_kind_of_the_prometheus_operator(self):
        """Most clusters for tests do not have it."""
        assert of_kind(rendered(), *KINDS, "Service") == []
        assert [object_["metadata"]["name"] for object_ in of_kind(rendered(), "ConfigMap")] == ["backfill-all-jobs"]

    @pytest.mark.parametrize("part", sorted(ALL))
    def test_each_part_is_switched_alone(self, part):
        """A cluster may have Grafana without the Prometheus Operator."""
        kinds = {
            "serviceMonitor": ["Service", "ServiceMonitor"], "prometheusRule": ["PrometheusRule"], "dashboard": ["ConfigMap", "ConfigMap"],
        }  # fmt: skip
        assert [object_["kind"] for object_ in monitoring(**{part: {"enabled": True}})] == kinds[part]

    @pytest.mark.parametrize("part", ["serviceMonitor", "prometheusRule"])
    def test_installation_without_the_kinds_names_the_value(self, part, tmp_path):
        """helm's own error names only a kind."""
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("kube-system", "shop")
        ]
        values = charts.as_flags({"watch": {"namespaces": ["shop"]}, "monitoring": {part: {"enabled": True}}})
        with looked_up(tmp_path, *namespaces) as (kubeconfig, _):
            arguments = (
                "template",
                RELEASE,
                charts.CHART,
                "--namespace",
                SYSTEM,
                "--dry-run=server",
                "--kubeconfig",
                kubeconfig,
            )
            done = charts.run(*arguments, *values)

        assert done.returncode != 0
        assert f"monitoring.{part}.enabled needs the Prometheus Operator" in done.stderr


class TestTheServiceMonitor:
    def test_monitor_selects_the_service_of_the_operators_pods(self):
        """One ServiceMonitor serves all jobs, because the operator exports their metrics."""
        made = rendered(monitoring=ALL)
        monitor, service, pod = (
            only(made, "ServiceMonitor"),
            only(made, "Service"),
            only(made, "Deployment")["spec"]["template"],
        )
        [endpoint], [port] = monitor["spec"]["endpoints"], service["spec"]["ports"]
        [metrics] = [given for given in pod["spec"]["containers"][0]["ports"] if given["name"] == port["targetPort"]]

        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert monitor["spec"]["namespaceSelector"]["matchNames"] == [service["metadata"]["namespace"]] == [SYSTEM]
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        assert endpoint["port"] == port["name"]
        assert metrics["containerPort"] == port["port"] == 9090
        assert endpoint["honorLabels"] is True

    def test_service_selects_only_the_operator(self):
        """The trial's pods have labels of the chart too."""
        selector = only(rendered(monitoring=ALL), "Service")["spec"]["selector"]
        [trial] = of_kind(charts.trial(), "Pod")

        assert not selector.items() <= trial["metadata"]["labels"].items()

    def test_labels_interval_and_namespace_can_be_set(self):
        """A Prometheus selects monitors by their labels and namespaces."""
        given = {
            "enabled": True,
            "labels": {"release": "prom"},
            "interval": "15s",
            "scrapeTimeout": "5s",
            "namespace": "monitoring",
        }
        monitor = only(monitoring(serviceMonitor=given), "ServiceMonitor")
        [endpoint] = monitor["spec"]["endpoints"]

        assert (endpoint["interval"], endpoint["scrapeTimeout"]) == ("15s", "5s")
        assert monitor["metadata"]["labels"]["release"] == "prom"
        assert monitor["metadata"]["namespace"] == "monitoring"
        assert SYSTEM in monitor["metadata"]["name"]
        assert monitor["spec"]["namespaceSelector"]["matchNames"] == [SYSTEM]

    def test_notes_ask_for_the_scraper(self, tmp_path):
        """The network policy of the operator admits no peer by default."""
        monitor, peer = {"serviceMonitor": {"enabled": True}}, {"namespaceSelector": {}}
        closed = "Prometheus cannot reach the operator's metrics"

        assert closed in charts.notes(tmp_path, monitoring=monitor)
        assert closed not in charts.notes(tmp_path)
        for policy in ({"operatorMetricsFrom": [peer]}, {"metricsFrom": [peer]}, {"enabled": False}):
            assert closed not in charts.notes(tmp_path, monitoring=monitor, networkPolicy=policy)

    @pytest.mark.parametrize(
        "given", [{"interval": "often"}, {"interval": "0s"}, {"labels": {"a": 1}}, {"every": "5s"}, {"namespace": "A"}]
    )
    def test_wrong_values_are_refused(self, given):
        """The Prometheus Operator would ignore such a monitor."""
        refusal = charts.refusal(watch={"namespaces": ["shop"]}, monitoring={"serviceMonitor": given})

        assert next(iter(given)) in refusal


class TestTheRules:
    def test_rules_are_those_of_the_file(self):
        """Tests read the file without helm."""
        groups = only(monitoring(prometheusRule={"enabled": True}), "PrometheusRule")["spec"]["groups"]

        assert [rule for group in groups for rule in group["rules"]] == ALERTS

    def test_runbooks_have_the_address_of_the_page(self):
        """A link of a pager needs a whole address."""
        given = {"enabled": True, "runbookUrl": "https://wiki.example/alerts", "labels": {"role": "rules"}}
        rule = only(monitoring(prometheusRule=given), "PrometheusRule")
        links = [alert["annotations"]["runbook_url"] for group in rule["spec"]["groups"] for alert in group["rules"]]

        assert links == [f"https://wiki.example/alerts#{alert['alert'].lower()}" for alert in ALERTS]
        assert rule["metadata"]["labels"]["role"] == "rules"

    def test_leader_is_that_of_the_release(self):
        """Two installations are watched by one Prometheus."""
        rules = only(rendered(system="other", monitoring=ALL), "PrometheusRule")["spec"]["groups"][-1]["rules"]

        assert rules[0]["labels"]["namespace"] == "other"
        assert rules[0]["expr"] == 'absent(backfill_operator_leader{namespace="other"} == 1)'
        assert SYSTEM not in yaml.safe_dump(rules)


class TestTheDashboards:
    def test_dashboards_are_those_of_the_files(self):
        """Grafana's sidecar reads each one from a ConfigMap."""
        maps = of_kind(monitoring(dashboard={"enabled": True}), "ConfigMap")

        assert [json.loads(text) for made in maps for text in made["data"].values()] == list(DASHBOARDS.values())
        assert {made["metadata"]["labels"]["grafana_dashboard"] for made in maps} == {"1"}
        assert len({name for made in maps for name in made["data"]}) == 2

    def test_sidecar_label_can_be_set(self):
        """Installations of Grafana use different labels."""
        given = {"enabled": True, "labels": {"grafana_dashboard": None, "dashboards": "yes"}, "namespace": "grafana"}
        maps = of_kind(monitoring(dashboard=given), "ConfigMap")

        assert {made["metadata"]["namespace"] for made in maps} == {"grafana"}
        assert all(made["metadata"]["labels"]["dashboards"] == "yes" for made in maps)
        assert not any("grafana_dashboard" in made["metadata"]["labels"] for made in maps)
