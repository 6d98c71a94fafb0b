"""Names of metrics and labels in PromQL expressions, read without Prometheus; and those that the operator exports."""

import json
import re
from dataclasses import dataclass, field

import yaml
from support.repository import ROOT

from backfill_operator import job_metrics
from backfill_operator.metrics import Metrics

FOLDER = ROOT / "charts" / "backfill-operator" / "files" / "monitoring"
PAGE = (ROOT / "docs" / "metrics.md").read_text()
DASHBOARDS = {name: json.loads((FOLDER / f"{name}.json").read_text()) for name in ("fleet", "job")}
ALERTS = [rule for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"] for rule in group["rules"]]

TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)|(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<number>\d[\d.]*(?:[smhdwy]|ms)?)"""
    r"""|(?P<word>[A-Za-z_:][\w:]*)|(?P<sign>=~|!~|!=|==|<=|>=|[-+*/%^<>=(){}\[\],@])"""
)
KEYWORDS = {"and", "or", "unless", "offset", "bool", "inf", "nan"}
GROUPINGS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
SCRAPE_LABELS = {"job", "instance", "pod", "container", "service", "endpoint"}
"""Labels that Prometheus adds to each series."""


@dataclass
class Query:
    """Metrics and labels of an expression."""

    metrics: set = field(default_factory=set)
    labels: dict = field(default_factory=dict)
    """Labels of the matchers of each metric."""

    grouped: set = field(default_factory=set)
    """Labels of groupings and of joins."""


class NoQueryError(ValueError):
    """The text is no expression."""


def tokens(text):
    """Return the tokens of an expression as (kind, text).

    Raises:
        NoQueryError: a character belongs to no token, or a bracket is not closed.
    """
    parts, at, depth = [], 0, []
    closing = {"(": ")", "{": "}", "[": "]"}
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise NoQueryError(f"unexpected text: {text[at:][:20]}")
        at = match.end()
        if match.lastgroup == "space":
            continue
        parts.append((match.lastgroup, match[0]))
        if match[0] in closing:
            depth.append(closing[match[0]])
        elif match[0] in closing.values() and (not depth or depth.pop() != match[0]):
            raise NoQueryError(f"unexpected {match[0]} in {text}")
    if depth:
        raise NoQueryError(f"{depth[-1]} is missing in {text}")
    return parts


def read(text):
    """Return the metrics and labels of an expression; `$name` of Grafana stands only in strings and in durations."""
    query, given = Query(), tokens(text)
    position = 0
    while position < len(given):
        kind, word = given[position]
        following = given[position + 1][1] if position + 1 < len(given) else ""
        if kind == "word" and word in GROUPINGS:
            position += 1
            while following == "(" and given[position][1] != ")":
                query.grouped |= {given[position][1]} if given[position][0] == "word" else set()
                position += 1
        elif kind == "word" and word not in KEYWORDS and following != "(" and following not in GROUPINGS:
            query.metrics.add(word)
            labels = query.labels.setdefault(word, set())
            if following == "{":
                position += 1
                while given[position][1] != "}":
                    labels |= {given[position][1]} if given[position][0] == "word" else set()
                    position += 1
        position += 1
    return query


def exported():
    """Return the labels of each exported series, by its name; those of the operator as the page lists them."""
    series = {name: set(labels) for name, labels in job_metrics.LABELS.items()}
    metrics = Metrics(lambda: ["Running"])
    documented = dict(re.findall(r"^\| `(backfill_operator_\w+)` \|([^|]*)\|", PAGE, flags=re.MULTILINE))
    for family in metrics.registry.collect():
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = set(re.findall(r"`(\w+)`", documented[name]))
        if family.type == "histogram":
            series |= {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
        else:
            series[name] = labels
    return series


def expressions():
    """Return every expression of the alerts and the dashboards as (place, text)."""
    alerts = [(rule["alert"], rule["expr"]) for rule in ALERTS]
    panels = [
        (f"{name}: {panel['title']}", target["expr"])
        for name, dashboard in DASHBOARDS.items()
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]
    variables = [
        (f"{name}: ${variable['name']}", re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])[1])
        for name, dashboard in DASHBOARDS.items()
        for variable in dashboard["templating"]["list"]
        if variable["type"] == "query"
    ]
    return alerts + panels + variables


def fitted(text, *, namespace=".*", name="orders"):
    """Return an expression of a dashboard as Grafana sends it, with values for its variables."""
    return text.replace("$namespace", namespace).replace("$name", name)
