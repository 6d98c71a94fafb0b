"""The difference that a client-side diff shows, as Argo CD does by default: the written object compared with the stored one.

Fields that the server adds to an object are no difference. A list that is merged by a key (containers, volumes) is compared
item by item. Any other list is compared whole, so one default inside it is a permanent difference.
"""

MERGED = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath"}
"""Lists of pods that are merged, with their keys."""

PODS = ("Deployment", "Pod")


def differences(written, stored):
    """Yield the path of each difference."""
    yield from _differences(written, stored, written["kind"], merges=written["kind"] in PODS)


def _differences(written, stored, path, *, merges):
    if isinstance(written, dict) and isinstance(stored, dict):
        for name, value in written.items():
            below = stored.get(name)
            here = f"{path}.{name}"
            if merges and name in MERGED and isinstance(value, list):
                there = {item[MERGED[name]]: item for item in below or ()}
                for item in value:
                    yield from _differences(item, there.get(item[MERGED[name]]), here, merges=merges)
            elif isinstance(value, list) and merges and name == "ports":
                continue
            elif value not in (None, {}, []) or below not in (None, {}, []):
                yield from _differences(value, below, here, merges=merges)
    elif written != stored or type(written) is not type(stored):
        yield f"{path}: {written!r:.200} is stored as {stored!r:.200}"
