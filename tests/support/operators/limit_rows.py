"""Backfills that need permissions, and whether the limits of an installation allow them, by the operator and by the API server."""


def queries(url):
    """Return an automatic limit that queries an address."""
    return {"throttle": {"auto": {"query": {"url": url, "expression": "up", "max": 1}, "floor": 1, "ceiling": 2}}}


LIMITS = {
    "allowedImages": ["registry.example/team/*", "registry.example/other"], "allowedServiceAccounts": ["filler-*"],
    "allowedHostPaths": ["/lake/"], "allowedPriorityClasses": ["low"], "allowedVolumes": ["persistentVolumeClaim", "projected"],
    "allowedQueryUrls": ["http://prometheus:9090", "http://metrics/team/*"],
}  # fmt: skip
"""Values of the chart."""

ACCEPTED = {
    "nothing": {},
    "parts that are null": {"driver": {"template": {"spec": {"volumes": None, "containers": None, "priorityClassName": None}}}},
    "the image of the installation": {"spark": {"image": "localhost/backfill-spark:dev"}},
    "an image that is allowed": {"spark": {"image": "registry.example/team/spark:4.2"}},
    "any version of an image": {"spark": {"image": "registry.example/other@sha256:" + "0" * 64}},
    "an account that is allowed": {"driver": {"serviceAccountName": "filler-2"}},
    "a claim": {"driver": {"template": {"spec": {"volumes": [{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}]}}}},
    "an existing claim for temporary files": {"scratch": {"claimName": "scratch"}},
    "a size of temporary files": {"scratch": {"size": "20Gi"}},
    "a folder below an allowed one": {
        "executor": {"template": {"spec": {"volumes": [{"name": "lake", "hostPath": {"path": "/lake/orders"}}]}}}
    },
    "our own container": {"driver": {"template": {"spec": {"containers": [{"name": "driver", "env": []}]}}}},
    "a priority class that is allowed": {"executor": {"template": {"spec": {"priorityClassName": "low"}}}},
    "no priority class": {"driver": {"template": {"spec": {"priorityClassName": ""}}}},
    "a query of an allowed address": queries("http://prometheus:9090/"),
    "a query below an allowed address": queries("http://metrics/team/a"),
    "fields for everybody": {"driver": {"template": {"spec": {"nodeSelector": {"disk": "fast"}, "tolerations": []}}}},
}  # fmt: skip
REFUSED = {
    "another image": ({"spark": {"image": "registry.example/thief"}}, "allowedImages"),
    "an image whose name only begins so": ({"spark": {"image": "registry.example/other-thief:1"}}, "allowedImages"),
    "an image by a detour": ({"spark": {"image": "registry.example/team/../thief"}}, "allowedImages"),
    "a query of another port": (queries("http://prometheus:90901"), "allowedQueryUrls"),
    "a query by a detour": (queries("http://metrics/team/../other"), "allowedQueryUrls"),
    "another account": ({"driver": {"serviceAccountName": "admin"}}, "allowedServiceAccounts"),
    "a folder of the node": (
        {"driver": {"template": {"spec": {"volumes": [{"name": "all", "hostPath": {"path": "/"}}]}}}}, "allowedHostPaths"
    ),
    "a folder by a detour": (
        {"executor": {"template": {"spec": {"volumes": [{"name": "all", "hostPath": {"path": "/lake/../etc"}}]}}}},
        "allowedHostPaths",
    ),
    "a folder whose name only begins so": (
        {"executor": {"template": {"spec": {"volumes": [{"name": "all", "hostPath": {"path": "/lakes"}}]}}}}, "allowedHostPaths"
    ),
    "a type of volume": (
        {"driver": {"template": {"spec": {"volumes": [{"name": "net", "nfs": {"server": "a", "path": "/"}}]}}}}, "allowedVolumes"
    ),
    "a token in a projected volume": (
        {"driver": {"template": {"spec": {"volumes": [
            {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]}}}},
        "allowedVolumes",
    ),
    "a storage class for temporary files": ({"scratch": {"size": "20Gi", "storageClassName": "fast"}}, "allowedVolumes"),
    "a priority": ({"driver": {"template": {"spec": {"priorityClassName": "system-node-critical"}}}}, "allowedPriorityClasses"),
    "a node by its name": ({"executor": {"template": {"spec": {"nodeName": "control-plane"}}}}, "allowedPodFields"),
    "the node's network": ({"driver": {"template": {"spec": {"hostNetwork": True}}}}, "allowedPodFields"),
    "a further container": (
        {"driver": {"template": {"spec": {"containers": [{"name": "thief", "image": "localhost/backfill-spark:dev"}]}}}},
        "allowSidecars",
    ),
    "a container that goes first": (
        {"executor": {"template": {"spec": {"initContainers": [{"name": "executor", "image": "thief"}]}}}}, "allowSidecars"
    ),
}  # fmt: skip
"""Requested feature, and the value that would allow it."""
