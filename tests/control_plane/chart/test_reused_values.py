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


def without(missing):
    """Return values without some of them; null removes the default, as in values of an earlier release."""
    given = {"watch": {"namespaces": list(TENANTS)}}
    for topic, *inner in missing:
        if not inner:
            given[topic] = None
            continue
        parent = given.setdefault(topic, {})
        for name in inner[:-1]:
            parent = parent.setdefault(name, {})
        parent[inner[-1]] = None
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
LEAVES = [path for path in ALL if not any(other[: len(path)] == path and other != path for other in ALL)]
DIFFERENT = [path for path in ALL if any(excepted.startswith(".".join(path)) for excepted in OTHERWISE)]
CASES = {
    "each single value": [path for path in LEAVES if path not in DIFFERENT],
    "each group of values inside a topic": [
        path for path in ALL if len(path) == 2 and path not in (*LEAVES, *DIFFERENT)
    ],
    **{f"the topic {topic}": [(topic,)] for (topic, *inner) in ALL if not inner and (topic,) not in DIFFERENT},
}
"""Values that are missing together. Most are independent of each other, so one render finds any that has no default."""


class TestAValueThatIsMissing:
    """No value that has a default is required (fault C9)."""

    @pytest.mark.parametrize("case", CASES)
    def test_missing_value_counts_as_its_default(self, case):
        """An upgrade must not disable enabled features: a CRD that is no longer installed deletes all Backfills."""
        given = without(CASES[case])
        made, expected = charts.rendered(**given) + charts.trial(**given), charts.rendered() + charts.trial()

        assert without_limits(made) == without_limits(expected)

    @pytest.mark.parametrize("path", DIFFERENT, ids=".".join)
    def test_value_whose_absence_differs_removes_no_object(self, path):
        """Each one has its reason in `OTHERWISE`."""
        given = without([path])
        made, expected = charts.rendered(**given) + charts.trial(**given), charts.rendered() + charts.trial()

        assert list(map(charts.place, made)) == list(map(charts.place, expected))

    def test_missing_limit_is_the_limit_of_the_operator(self):
        """The operator receives no setting then."""
        own = OperatorSettings().model_dump()
        limits = {re.sub("(?=[A-Z])", "_", name).lower(): value for name, value in VALUES["limits"].items()}

        assert {name: list(own[name]) if isinstance(own[name], tuple) else own[name] for name in limits} == limits

    def test_all_values_except_namespaces_may_be_missing(self):
        """The oldest possible values."""
        assert only(charts.rendered(**{topic: None for topic in VALUES if topic != "watch"}), "Deployment")
