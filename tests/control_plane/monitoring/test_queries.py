"""Queries of alerts and dashboards name metrics that the operator exports, and each alert has a section in the docs."""

import re

import pytest
from support.monitoring.queries import (
    ALERTS,
    DASHBOARDS,
    SCRAPE_LABELS,
    NoQueryError,
    exported,
    expressions,
    fitted,
    read,
    tokens,
)
from support.repository import ROOT

PAGE = (ROOT / "docs" / "alerts.md").read_text()
EXPORTED = exported()
QUERIES = expressions()


class TestEachQuery:
    """A query with a misspelt name is valid, returns nothing, and so its alert never fires."""

    @pytest.mark.parametrize(("place", "text"), QUERIES, ids=[f"{n}-{place}" for n, (place, _) in enumerate(QUERIES)])
    def test_query_names_only_exported_metrics_and_their_labels(self, place, text):
        """Labels of matchers belong to the metric; labels of groupings belong to one of the metrics."""
        query = read(fitted(text))

        assert query.metrics
        assert query.metrics <= EXPORTED.keys()
        for metric, labels in query.labels.items():
            of_target = {"namespace"} if metric.startswith("backfill_operator_") else set()
            assert labels <= EXPORTED[metric] | of_target, metric
        assert query.grouped <= set().union(*(EXPORTED[metric] for metric in query.metrics)) | SCRAPE_LABELS

    def test_every_job_metric_is_in_a_query(self):
        """A metric without an alert and without a panel is not needed."""
        used = set().union(*(read(fitted(text)).metrics for _, text in QUERIES))

        assert {name for name in EXPORTED if name.startswith("backfill_job_")} <= used

    def test_panels_are_apart(self):
        """Grafana moves panels that overlap, and a dashboard then looks different on each load."""
        for dashboard in DASHBOARDS.values():
            places = [panel["gridPos"] for panel in dashboard["panels"]]
            cells = [
                (x, y)
                for at in places
                for x in range(at["x"], at["x"] + at["w"])
                for y in range(at["y"], at["y"] + at["h"])
            ]
            assert len(cells) == len(set(cells))
            assert max(x for x, _ in cells) < 24


class TestTheReader:
    """The reader of expressions finds names where they are."""

    @pytest.mark.parametrize(
        ("text", "metrics", "labels", "grouped"),
        [
            ("up", {"up"}, set(), set()),
            (
                'sum by (a, b) (rate(hits_total{code=~"5..", verb!="get"}[5m])) > 0.5',
                {"hits_total"},
                {"code", "verb"},
                {"a", "b"},
            ),
            ("sum(x) by (a) / on (b) group_left (c) y offset 1h", {"x", "y"}, set(), {"a", "b", "c"}),
            ('absent(x{a="b"} == 1) or vector(0)', {"x"}, {"a"}, set()),
            ('x{a="not_a_metric(y)"} # y\n unless z', {"x", "z"}, {"a"}, set()),
        ],
    )
    def test_reader_finds_metrics_and_labels(self, text, metrics, labels, grouped):
        """Functions, keywords, strings and comments contain no metric."""
        query = read(text)

        assert (query.metrics, set().union(*query.labels.values()), query.grouped) == (metrics, labels, grouped)

    @pytest.mark.parametrize("text", ["sum(x", "x}", "x{a='b']", "x ? y", 'x{a="b}'])
    def test_reader_refuses_a_text_that_is_no_expression(self, text):
        """A bracket that is not closed would hide the names behind it."""
        with pytest.raises(NoQueryError):
            tokens(text)


class TestEachAlert:
    """The person on call reads one page."""

    @pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
    def test_alert_links_to_its_section(self, rule):
        """The anchor is that of the heading with the alert's name."""
        page, _, anchor = rule["annotations"]["runbook_url"].partition("#")

        assert (page, anchor) == ("docs/alerts.md", rule["alert"].lower())
        assert re.search(rf"^## {rule['alert']}$", PAGE, flags=re.MULTILINE)
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}

    def test_page_has_a_section_for_each_alert_and_no_other(self):
        """A section of a removed alert would confuse readers."""
        assert re.findall(r"^## (Backfill\w+)$", PAGE, flags=re.MULTILINE) == [rule["alert"] for rule in ALERTS]
