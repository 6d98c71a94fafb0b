"""What network policies let pods say to each other, by the words of the Kubernetes API alone: no plug-in enforces them here.

A policy selects pods of its own namespace. For each direction that a policy names, a pod that none selects makes and takes
every call; one that is selected those that one of its policies allows. A call passes if both ends allow it. Calls that do not
come from a pod, a kubelet's probes among them, are not modelled: they come from the pod's own node, and every plug-in lets
them pass. Blocks of addresses are about hosts outside the cluster.
"""

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network


@dataclass(frozen=True)
class Place:
    """A pod as policies see it: its namespace with that one's labels, and its own labels and named ports."""

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
    """Return the place of a pod, which may be a template of one; a namespace has its name as a label."""
    ports = [one for container in pod["spec"]["containers"] for one in container.get("ports", [])]
    return Place(
        namespace,
        pod["metadata"]["labels"],
        {"kubernetes.io/metadata.name": namespace} | namespace_labels,
        {one["name"]: one["containerPort"] for one in ports if "name" in one},
    )


def takes(policies, source, target, port, protocol="TCP"):
    """Return whether a call passes: its caller may make it, and the called one takes it."""
    ends = (("Egress", "to", source, target), ("Ingress", "from", target, source))
    return all(_lets(policies, *end, (target, port, protocol)) for end in ends)


def _lets(policies, direction, peers, pod, other, door):
    """Return whether the policies of a pod let a call pass in one direction."""
    selecting = [
        one["spec"]
        for one in policies
        if one["metadata"]["namespace"] == pod.namespace
        and direction in one["spec"]["policyTypes"]
        and selects(one["spec"]["podSelector"], pod.labels)
    ]
    rules = [rule for spec in selecting for rule in spec.get(direction.lower()) or []]
    return not selecting or any(_allows(rule, peers, other, pod, door) for rule in rules)


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


def _allows(rule, direction, other, pod, door):
    """Peers and ports of one rule must both match; either is everything where it is left out or empty."""
    assert rule.keys() <= {direction, "ports"}, rule
    peers, ports = rule.get(direction) or [], rule.get("ports") or []
    return (not peers or any(_is(peer, other, pod) for peer in peers)) and (
        not ports or any(_names(one, *door) for one in ports)
    )


def _is(peer, other, pod):
    """Is a place meant by a peer? A pod's selector without one of namespaces is about the namespace of the policy."""
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


def _names(one, target, port, protocol):
    assert one.keys() <= {"protocol", "port", "endPort"}, one
    if one.get("protocol", "TCP") != protocol:
        return False
    given = one.get("port")
    if given is None:
        return True
    first = target.ports.get(given) if isinstance(given, str) else given
    return first is not None and first <= port <= one.get("endPort", first)
