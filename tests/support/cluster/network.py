"""Network policies by the rules of the Kubernetes API: returns which calls between pods pass; no plug-in enforces them here.

A policy selects pods of its namespace. For each direction that a policy names, a pod that no policy selects makes and accepts
every call. A selected pod makes and accepts the calls that one of its policies allows. A call passes if both ends allow it.
Blocks of addresses describe hosts outside the cluster. Calls that do not come from a pod, such as a kubelet's probes, are not
modelled. They come from the pod's node, and every plug-in allows them.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network


@dataclass(frozen=True)
class Place:
    """A pod as policies see it: its namespace with that one's labels, and its labels and named ports."""

    namespace: str
    labels: dict
    namespace_labels: dict
    ports: dict = field(default_factory=dict)
    """Ports of its containers by name."""

    address: str | None = None
    """Address of a host outside the cluster, which has no namespace and no labels; `None` for a pod."""


def host(address):
    """Return a host outside the cluster."""
    return Place("", {}, {}, address=address)


def place_of(pod, namespace, **namespace_labels):
    """Return the place of a pod or of a pod template; a namespace has its name as a label."""
    ports = [port_ for container in pod["spec"]["containers"] for port_ in container.get("ports", [])]
    return Place(
        namespace,
        pod["metadata"]["labels"],
        {"kubernetes.io/metadata.name": namespace} | namespace_labels,
        {port_["name"]: port_["containerPort"] for port_ in ports if "name" in port_},
    )


def takes(policies, source, target, port, protocol="TCP"):
    """Return whether a call passes: the caller may make it, and the callee accepts it."""
    ends = (("Egress", "to", source, target), ("Ingress", "from", target, source))
    return all(_lets(policies, *end, (target, port, protocol)) for end in ends)


def _lets(policies, direction, peers, pod, other, door):
    """Return whether the policies of a pod let a call pass in one direction."""
    selecting = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == pod.namespace
        and direction in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], pod.labels)
    ]
    rules = [rule for spec in selecting for rule in spec.get(direction.lower()) or []]
    return not selecting or any(_allows(rule, peers, other, pod, door) for rule in rules)


def selects(selector, labels):
    """Return whether a selector of labels matches; an empty one matches everything."""
    assert selector.keys() <= {"matchLabels", "matchExpressions"}, selector
    named = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or []
    return named.items() <= labels.items() and all(_holds(expression, labels) for expression in expressions)


def _holds(expression, labels):
    value = labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return value in expression["values"]
        case "NotIn":
            return value not in expression["values"]
        case "Exists":
            return expression["key"] in labels
        case "DoesNotExist":
            return expression["key"] not in labels
    raise AssertionError(expression)


def _allows(rule, direction, other, pod, door):
    """Match peers and ports of one rule: both must match, and either matches everything if it is missing or empty."""
    assert rule.keys() <= {direction, "ports"}, rule
    peers, ports = rule.get(direction) or [], rule.get("ports") or []
    return (not peers or any(_is(peer, other, pod) for peer in peers)) and (
        not ports or any(_names(port_, *door) for port_ in ports)
    )


def _is(peer, other, pod):
    """Return whether a peer means a place; a pod selector without a namespace selector means the policy's namespace."""
    assert peer.keys() <= {"podSelector", "namespaceSelector"} or peer.keys() == {"ipBlock"}, peer
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        return _inside(other, block["cidr"]) and not any(_inside(other, part) for part in block.get("except", []))
    if other.address is not None:
        return False
    where = peer.get("namespaceSelector")
    near = other.namespace == pod.namespace if where is None else selects(where, other.namespace_labels)
    return near and selects(peer.get("podSelector") or {}, other.labels)


def _inside(other, block):
    return other.address is not None and ip_address(other.address) in ip_network(block)


def _names(rule, target, port, protocol):
    assert rule.keys() <= {"protocol", "port", "endPort"}, rule
    if rule.get("protocol", "TCP") != protocol:
        return False
    given = rule.get("port")
    if given is None:
        return True
    first = target.ports.get(given) if isinstance(given, str) else given
    return first is not None and first <= port <= rule.get("endPort", first)
