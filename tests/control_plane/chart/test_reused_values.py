"""`helm upgrade --reuse-values`: values of an earlier release lack those that are new, and helm adds no default."""

import copy
import re

import pytest
import yaml
from support.cluster import charts
from support.cluster.charts import CHART, TENANTS, only

from backfill_operator.settings import OperatorSettings

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())

OTHERWISE = {
    "podUser": "null stands for the user that the cluster chooses",
    "operator.resources": "a replica has none",
    "tenant.quota.hard": "a quota is off by default",
    "networkPolicy.egress": "jobs of an earlier release call whom they called",
    "networkPolicy.egress.dns": "as above: an empty list is a choice",
    "networkPolicy.egress.apiServer": "as above",
    "watch.namespaces": "no default would do",
}
"""Values whose absence is not their default, with the reason."""

FREE = ("operator.resources", "tenant.quota.hard")
"""Mappings whose entries are Kubernetes' own."""


def paths(values, deep=()):
    """Yield the path of each topic and of each value below it, as far as the schema names them."""
    for name, value in values.items():
        yield (*deep, name)
        if isinstance(value, dict) and ".".join((*deep, name)) not in FREE:
            yield from paths(value, (*deep, name))


def without(path):
    """Return what helm makes where one value is missing; null takes the default away, as values of an earlier release do."""
    topic, *inner = path
    value = None
    for name in reversed(inner):
        value = {name: value}
    given = {"watch": {"namespaces": list(TENANTS)}}
    if topic == "watch" and inner:
        given["watch"] |= value
    else:
        given[topic] = value
    return given


def without_limits(objects):
    """Return the objects without what the operator is told of its limits: it has the same defaults itself."""
    told = {f"BACKFILL_OPERATOR_{re.sub('(?=[A-Z])', '_', name).upper()}" for name in VALUES["limits"]}
    objects = copy.deepcopy(objects)
    [container] = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    container["env"] = [variable for variable in container["env"] if variable["name"] not in told]
    rules = charts.of_kind(objects, "ValidatingAdmissionPolicy")[0]["spec"]
    rules["validations"] = [rule for rule in rules["validations"] if "limits.allowedVolumes" not in rule["message"]]
    return objects


ALL = [path for path in paths(VALUES) if path not in (("watch",), ("watch", "namespaces"))]


class TestAValueThatIsMissing:
    """No value is required that has a default (fault C9)."""

    @pytest.mark.parametrize("path", ALL, ids=".".join)
    def test_counts_as_its_default(self, path):
        """An upgrade must not turn off what is on: a CRD that is not installed any more takes all Backfills along."""
        name, given = ".".join(path), without(path)
        made, expected = charts.rendered(**given) + charts.trial(**given), charts.rendered() + charts.trial()
        if path[0] == "limits":
            made, expected = without_limits(made), without_limits(expected)

        if not any(excepted.startswith(name) for excepted in OTHERWISE):
            assert made == expected
        assert list(map(charts.place, made)) == list(map(charts.place, expected))

    def test_of_a_limit_is_one_of_the_operator(self):
        """It is told nothing then."""
        own = OperatorSettings().model_dump()
        limits = {re.sub("(?=[A-Z])", "_", name).lower(): value for name, value in VALUES["limits"].items()}

        assert {name: list(own[name]) if isinstance(own[name], tuple) else own[name] for name in limits} == limits

    def test_is_not_asked_for_where_all_but_the_namespaces_are_missing(self):
        """The oldest values that there may be."""
        assert only(charts.rendered(**{topic: None for topic in VALUES if topic != "watch"}), "Deployment")
