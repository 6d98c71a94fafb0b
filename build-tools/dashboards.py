"""The two Grafana dashboards of the chart: all jobs, and one job. Grafana's JSON repeats so much that it is generated."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "charts" / "backfill-operator" / "files" / "monitoring"
FLEET_FILE = FOLDER / "fleet.json"
JOB_FILE = FOLDER / "job.json"

FLEET = 'namespace=~"$namespace"'
JOB = 'namespace="$namespace", name="$name"'
BY_JOB = "max by (namespace, name)"
"""Two series of one job exist for minutes after another operator has become the leader."""

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24

OPTIONS: dict[str, dict[str, Any]] = {
    "stat": {
        "colorMode": "none", "graphMode": "none", "justifyMode": "auto", "orientation": "auto", "textMode": "value", "wideLayout": True,
        "percentChangeColorMode": "standard", "showPercentChange": False,
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    },
    "table": {"frameIndex": 0, "showHeader": True},
    "timeseries": {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
}  # fmt: skip
"""Options of each kind of panel. Grafana's schema requires all of them; their defaults differ between its versions."""


@dataclass(frozen=True)
class Panel:
    """One panel with its queries."""

    title: str
    queries: Sequence[tuple[str, str]]
    """Expression and legend."""

    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    help: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    transformations: Sequence[dict[str, Any]] = ()


def panels_of(panels: Sequence[Panel]) -> Iterator[dict[str, Any]]:
    """Yield the panels in Grafana's form, from left to right and from top to bottom."""
    x = y = row_height = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > WIDTH:
            x, y, row_height = 0, y + row_height, 0
        instant = panel.kind != "timeseries"
        targets = [
            {
                "datasource": SOURCE, "expr": expr, "legendFormat": legend, "refId": chr(ord("A") + position), "instant": instant,
                "range": not instant, "format": "table" if panel.kind == "table" else "time_series",
            }
            for position, (expr, legend) in enumerate(panel.queries)
        ]  # fmt: skip
        yield {
            "id": number, "type": panel.kind, "title": panel.title, "description": panel.help, "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height}, "targets": targets,
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []}, "options": {**OPTIONS[panel.kind], **panel.options},
            "transformations": list(panel.transformations),
        }  # fmt: skip
        x, row_height = x + panel.width, max(row_height, panel.height)


NOTHING_CHOSEN = {"text": "", "value": ""}
"""Grafana chooses the first value."""


def variable(name: str, query: str, *, several: bool) -> dict[str, Any]:
    """Return a variable whose values are those of a label."""
    return {
        "name": name, "type": "query", "datasource": SOURCE, "query": {"query": query, "refId": name}, "refresh": 2, "sort": 1,
        "multi": several, "includeAll": several, "current": {"text": "All", "value": "$__all"} if several else NOTHING_CHOSEN,
    }  # fmt: skip


def dashboard(uid: str, title: str, variables: Sequence[dict[str, Any]], panels: Sequence[Panel]) -> str:
    """Return a dashboard as JSON."""
    source = {"name": "datasource", "type": "datasource", "query": "prometheus", "current": NOTHING_CHOSEN}
    link = {
        "type": "dashboards", "tags": ["backfill"], "title": "Backfill", "asDropdown": True, "icon": "dashboard", "tooltip": "",
        "targetBlank": False, "includeVars": True, "keepTime": True,
    }  # fmt: skip
    document = {
        "uid": uid, "title": title, "tags": ["backfill"], "schemaVersion": 39, "editable": True, "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"}, "timezone": "browser", "templating": {"list": [source, *variables]},
        "links": [link], "annotations": {"list": []},
        "panels": list(panels_of(panels)),
    }  # fmt: skip
    return json.dumps(document, indent=1) + "\n"


def stat(title: str, expr: str, *, unit: str = "short", help_: str = "") -> Panel:
    """Return a panel with one number."""
    return Panel(title, [(expr, "")], "stat", unit, width=4, height=4, help=help_)


def stat_of_labels(title: str, expr: str, legend: str) -> Panel:
    """Return a panel with the labels of a series; its value is always 1."""
    return Panel(title, [(expr, legend)], "stat", width=4, height=4, options={"textMode": "name"})


def job_table() -> Panel:
    """Return the table of all jobs, which joins their metrics by namespace and name."""
    columns = ("percent", "rows_done", "rows", "rows_per_second", "lag_seconds", "eta_seconds")
    info = f"max by (namespace, name, strategy, phase, step, reason) (backfill_job_info{{{FLEET}}})"
    queries = [(info, "")] + [(f"{BY_JOB} (backfill_job_{name}{{{FLEET}}})", "") for name in columns]
    names = {f"Value #{chr(ord('B') + position)}": name.replace("_", " ") for position, name in enumerate(columns)}
    organized = {"excludeByName": {"Time": True, "Value #A": True}, "renameByName": names}
    transformations = [{"id": "merge", "options": {}}, {"id": "organize", "options": organized}]
    return Panel("Jobs", queries, "table", width=24, height=12, transformations=transformations)


def counted(matchers: str) -> str:
    """Return an expression for the number of jobs in a state; 0 if there are none."""
    return f"count({BY_JOB} (backfill_job_info{{{FLEET}, {matchers}}})) or vector(0)"


def quantile(metric: str, *labels: str) -> str:
    """Return an expression for the 99th percentile of a histogram."""
    grouped = ", ".join(("le", *labels))
    return f"histogram_quantile(0.99, sum by ({grouped}) (rate({metric}_bucket[5m])))"


def increased(metric: str, matchers: str) -> str:
    """Return an expression for the increase of a counter of jobs in an hour, by reason."""
    return f"sum by (reason) (increase(backfill_job_{metric}_total{{{matchers}}}[1h]))"


def render_fleet() -> str:
    """Return the dashboard of all jobs."""
    top: Callable[[str], str] = lambda name: f"topk(20, {BY_JOB} (backfill_job_{name}{{{FLEET}}}))"  # noqa: E731
    job = "{{namespace}}/{{name}}"
    panels = [
        stat("Running", counted('phase="Running"')),
        stat("Paused", counted('phase="Paused"')),
        stat("Need a person", counted('phase=~"Failed|AwaitingApproval"'), help_="Failed, or waiting for an approval."),
        stat("Wait for a driver", counted('reason=~"DriversLimited|QuotaExceeded"')),
        stat("Receipts that differ", f'count({BY_JOB} (backfill_job_receipt{{{FLEET}, state="Differs"}})) or vector(0)'),
        stat("Leaders", "sum(backfill_operator_leader)", help_="1 if the operator works."),
        job_table(),
        Panel("Rows a second", [(top("rows_per_second"), job)], help="The 20 fastest jobs."),
        Panel("Lag", [(top("lag_seconds"), job)], unit="s", help="The 20 jobs that are furthest behind."),
        Panel("Seconds without a commit", [(top("commit_age_seconds"), job)], unit="s"),
        Panel("Phases", [("max by (phase) (backfill_operator_backfills)", "{{phase}}")], help="All namespaces."),
        Panel("Warnings", [(f"sum by (code) (max by (namespace, name, code) (backfill_job_warnings{{{FLEET}}}))", "{{code}}")]),
        Panel("Failed attempts", [
            (f"sum by (reason) (max by (namespace, name, reason) (backfill_job_failed_attempts{{{FLEET}}}))", "{{reason}}"),
        ], help="Of the last five attempts of each job."),
        Panel("Lost drivers in an hour", [(increased("drivers_lost", FLEET), "{{reason}}")]),
        Panel("Lost executors in an hour", [(increased("executors_lost", FLEET), "{{reason}}")]),
        Panel("Acknowledgement, p99", [(quantile("backfill_operator_ack_seconds", "command"), "{{command}}")], unit="s"),
        Panel("Launch and reconcile, p99", [
            (quantile("backfill_operator_launch_seconds"), "launch"), (quantile("backfill_operator_reconcile_seconds"), "reconcile"),
        ], unit="s"),
        Panel("Queue", [
            ("max(backfill_operator_queue_depth)", "Backfills that wait for a worker"),
            ("max(backfill_operator_live_drivers)", "drivers that are polled"),
            ("max(backfill_job_series_omitted)", "jobs without series"),
        ]),
        Panel("Requests to the API server", [("sum by (verb, code) (rate(backfill_operator_api_requests_total[5m]))", "{{verb}} {{code}}")], unit="reqps"),
    ]  # fmt: skip
    variables = [variable("namespace", "label_values(backfill_job_info, namespace)", several=True)]
    return dashboard("backfill-fleet", "Backfill: all jobs", variables, panels)


def render_job() -> str:
    """Return the dashboard of one job."""

    def of(name: str) -> str:
        return f"max(backfill_job_{name}{{{JOB}}})"

    state = f"max by (strategy, phase, step, reason) (backfill_job_info{{{JOB}}})"
    panels = [
        stat_of_labels("State", state, "{{phase}} {{step}}: {{reason}}"),
        stat("Done", of("percent"), unit="percent"),
        stat("ETA", of("eta_seconds"), unit="s", help_="Unknown before there is a rate."),
        stat("Attempt", of("attempt")),
        stat_of_labels("Receipt", f"max by (state) (backfill_job_receipt{{{JOB}}})", "{{state}}"),
        stat("Without a commit", of("commit_age_seconds"), unit="s"),
        Panel("Rows", [(of("rows_done"), "done"), (of("rows"), "all")]),
        Panel("Rows a second", [(of("rows_per_second"), "rows a second")]),
        Panel("Percent", [(of("percent"), "of the whole job")], unit="percent"),
        Panel("Lag", [(of("lag_seconds"), "seconds")], unit="s"),
        Panel("Lag in versions or records", [(of("lag_versions"), "versions"), (of("lag_records"), "records")]),
        Panel("ETA", [
            (of("eta_seconds"), "estimate"), (of("eta_seconds_low"), "low"), (of("eta_seconds_high"), "high"),
        ], unit="s", help="Nine jobs in ten end between the bounds."),
        Panel("Commits and commands", [
            (of("commit_age_seconds"), "seconds without a commit"), (of("command_pending_seconds"), "seconds without an acknowledgement"),
        ], unit="s"),
        Panel("Paused and throttled", [(of("paused"), "paused"), (of("throttled"), "throttled")]),
        Panel("Pieces at a time and executors", [(of("max_in_flight"), "pieces"), (of("executors"), "executors")], help="`kubectl backfill rescale` changes both."),
        Panel("Warnings", [(f"max by (code) (backfill_job_warnings{{{JOB}}})", "{{code}}")]),
        Panel("Failed attempts", [(f"max by (reason) (backfill_job_failed_attempts{{{JOB}}})", "{{reason}}")], help="Of the last five."),
        Panel("Lost drivers in an hour", [(increased("drivers_lost", JOB), "{{reason}}")]),
        Panel("Lost executors in an hour", [(increased("executors_lost", JOB), "{{reason}}")]),
    ]  # fmt: skip
    variables = [
        variable("namespace", "label_values(backfill_job_info, namespace)", several=False),
        variable("name", 'label_values(backfill_job_info{namespace="$namespace"}, name)', several=False),
    ]
    return dashboard("backfill-job", "Backfill: one job", variables, panels)
