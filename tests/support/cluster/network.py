"""What network policies let pods say to each other, by the words of the Kubernetes API alone: no plug-in enforces them here.

A policy selects pods of its own namespace. A pod that none selects takes every call; one that is selected takes what one
of its policies allows. Calls that do not come from a pod, a kubelet's probes among them, are not modelled: they come from
the pod's own node, and every plug-in lets them pass.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Place:
    """A pod as policies see it: its namespace with that one's labels, and its own labels and named ports."""

    namespace: str
    labels: dict
    namespace_labels: dict
    ports: dict = field(default_factory=dict)
    """Ports of its containers by name."""


def place_of(pod, namespace, **namespace_labels):
    """Return the place of a pod, which may be a template of one; a namespace has its name as a label."""
    ports = [one for container in pod["spec"]["containers"] for one in container.get("ports", [])]
    return Place(
        namespace,
        pod["metadata"]["labels"],
        {"kubernetes.io/metadata.name": namespace} | namespace_labels,
        {one["name"]: one["containerPort"] for one in ports if "name" in one},
    )


def takes(policies, source, target, port, protocol="TCP"):
    """Does a pod take a call of another one?"""
    selecting = [
        one["spec"]
        for one in policies
        if one["metadata"]["namespace"] == target.namespace and selects(one["spec"]["podSelector"], target.labels)
    ]
    for spec in selecting:
        assert spec["policyTypes"] == ["Ingress"], "calls that go out are not modelled"
    rules = [rule for spec in selecting for rule in spec.get("ingress") or []]
    return not selecting or any(_allows(rule, source, target, port, protocol) for rule in rules)


def selects(selector, labels):
    """Does a selector of labels match? An empty one matches everything."""
    assert selector.keys() <= {"matchLabels", "matchExpressions"}, selector
    named = selector.get("matchLabels") or {}
    told = selector.get("matchExpressions") or []
    return named.items() <= labels.items() and all(_holds(one, labels) for one in told)


def _holds(one, labels):
    value = labels.get(one["key"])
    match one["operator"]:
        case "In":
            return value in one["values"]
        case "NotIn":
            return value not in one["values"]
        case "Exists":
            return one["key"] in labels
        case "DoesNotExist":
            return one["key"] not in labels
    raise AssertionError(one)


def _allows(rule, source, target, port, protocol):
    """Peers and ports of one rule must both match; either is everything where it is left out or empty."""
    assert rule.keys() <= {"from", "ports"}, rule
    peers, ports = rule.get("from") or [], rule.get("ports") or []
    return (not peers or any(_is(peer, source, target) for peer in peers)) and (
        not ports or any(_names(one, target, port, protocol) for one in ports)
    )


def _is(peer, source, target):
    """Is a pod meant by a peer? A pod's selector without one of namespaces is about the namespace of the policy."""
    assert peer.keys() <= {"podSelector", "namespaceSelector"}, "blocks of addresses are not modelled"
    where = peer.get("namespaceSelector")
    near = source.namespace == target.namespace if where is None else selects(where, source.namespace_labels)
    return near and selects(peer.get("podSelector") or {}, source.labels)


def _names(one, target, port, protocol):
    assert one.keys() <= {"protocol", "port", "endPort"}, one
    if one.get("protocol", "TCP") != protocol:
        return False
    given = one.get("port")
    if given is None:
        return True
    first = target.ports.get(given) if isinstance(given, str) else given
    return first is not None and first <= port <= one.get("endPort", first)
