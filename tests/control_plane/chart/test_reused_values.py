"""`helm upgrade --reuse-values`: values of an earlier release lack new values, and helm adds no defaults."""

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
"""Values whose absence differs from their default, with the reason."""

FREE = ("operator.resources", "tenant.quota.hard")
"""Mappings with entries that Kubernetes defines."""


def paths(values, deep=()):
    """Yield the path of each topic and of each value below it that the schema defines."""
    for name, value in values.items():
        yield (*deep, name)
        if isinstance(value, dict) and ".".join((*deep, name)) not in FREE:
            yield from paths(value, (*deep, name))


def without(path):
    """Return the rendered objects without one value; null removes the default, as in values of an earlier release."""
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
    """Return the objects without the operator's limits, because the operator has the same defaults."""
    variables = {f"BACKFILL_OPERATOR_{re.sub('(?=[A-Z])', '_', name).upper()}" for name in VALUES["limits"]}
    objects = copy.deepcopy(objects)
    [container] = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    container["env"] = [variable for variable in container["env"] if variable["name"] not in variables]
    rules = charts.of_kind(objects, "ValidatingAdmissionPolicy")[0]["spec"]
    rules["validations"] = [rule for rule in rules["validations"] if "limits.allowedVolumes" not in rule["message"]]
    return objects


ALL = [path for path in paths(VALUES) if path not in (("watch",), ("watch", "namespaces"))]


class TestAValueThatIsMissing:
    """No value that has a default is required (fault C9)."""

    @pytest.mark.parametrize("path", ALL, ids=".".join)
    def test_missing_value_counts_as_its_default(self, path):
        """An upgrade must not disable enabled features: a CRD that is no longer installed deletes all Backfills."""
        name, given = ".".join(path), without(path)
        made, expected = charts.rendered(**given) + charts.trial(**given), charts.rendered() + charts.trial()
        if path[0] == "limits":
            made, expected = without_limits(made), without_limits(expected)

        if not any(excepted.startswith(name) for excepted in OTHERWISE):
            assert made == expected
        assert list(map(charts.place, made)) == list(map(charts.place, expected))

    def test_missing_limit_is_the_limit_of_the_operator(self):
        """The operator receives no setting then."""
        own = OperatorSettings().model_dump()
        limits = {re.sub("(?=[A-Z])", "_", name).lower(): value for name, value in VALUES["limits"].items()}

        assert {name: list(own[name]) if isinstance(own[name], tuple) else own[name] for name in limits} == limits

    def test_all_values_except_namespaces_may_be_missing(self):
        """The oldest possible values."""
        assert only(charts.rendered(**{topic: None for topic in VALUES if topic != "watch"}), "Deployment")
