"""History of the Backfills of some namespaces: every stored status, in order, and the ends of their pods.

Polling misses short-lived states; a watch does not.
"""

import contextlib
import itertools
import json
import subprocess
import threading
import time

from backfill_api.names import BACKFILL_LABEL, GROUP, PLURAL, ROLE_LABEL, VERSION

KINDS = {"pods": "/api/v1/namespaces/{}/pods", PLURAL: f"/apis/{GROUP}/{VERSION}/namespaces/{{}}/{PLURAL}"}
AGAIN_S = 0.5


class Witness:
    """Watches from `start` to `stop`, also across restarts of the API server."""

    def __init__(self, kubectl, namespaces):
        """Take kubectl with its flags, as a list, and the namespaces."""
        self._kubectl, self._namespaces = kubectl, namespaces
        self._changed = threading.Condition()
        self._held = {kind: {} for kind in KINDS}
        self._past = {}
        """All versions of a Backfill by namespace and name."""

        self._ended = {}
        """Last state of a pod after its container ended, and the exit code, by namespace and name."""

        self._over = threading.Event()
        self._watches = set()

    def start(self):
        """Begin."""
        for namespace, kind in itertools.product(self._namespaces, KINDS):
            threading.Thread(target=self._follow, args=(namespace, kind), daemon=True).start()

    def stop(self):
        """End."""
        self._over.set()
        for watch in tuple(self._watches):
            watch.terminate()

    # ------------------------------------------------------------ current and past states
    def backfill(self, namespace, name):
        """Return the current Backfill; `None` if it does not exist."""
        with self._changed:
            return self._held[PLURAL].get((namespace, name))

    def past(self, namespace, name):
        """Return every version of the newest Backfill of this name, oldest first."""
        with self._changed:
            return list(self._past.get((namespace, name), ()))

    def pods(self, namespace, backfill, role):
        """Return the current pods of a Backfill."""
        labels = {BACKFILL_LABEL: backfill, ROLE_LABEL: role}
        with self._changed:
            pods = list(self._held["pods"].items())
        return [pod for key, pod in pods if key[0] == namespace and labels.items() <= _labels(pod).items()]

    def ended(self, namespace, backfill, role="driver"):
        """Return the exit codes of a Backfill's pods, by the pod's name."""
        labels = {BACKFILL_LABEL: backfill, ROLE_LABEL: role}
        with self._changed:
            pods = list(self._ended.items())
        return {
            key[1]: code for key, (pod, code) in pods if key[0] == namespace and labels.items() <= _labels(pod).items()
        }

    def ended_pod(self, namespace, name):
        """Return the last state of a pod after its container ended, also of a deleted pod; `None` if it did not end."""
        with self._changed:
            return self._ended.get((namespace, name), (None, None))[0]

    def wait(self, within_s):
        """Return on a change, or when the time is over."""
        with self._changed:
            self._changed.wait(within_s)

    # ------------------------------------------------------------ the watches
    def _follow(self, namespace, kind):
        place = KINDS[kind].format(namespace)
        while not self._over.is_set():
            with contextlib.suppress(OSError, ValueError, KeyError, subprocess.SubprocessError):
                listed = json.loads(self._said("get", "--raw", place))
                self._take(namespace, kind, listed["items"])
                self._watch(
                    kind,
                    f"{place}?watch=true&timeoutSeconds=120&resourceVersion={listed['metadata']['resourceVersion']}",
                )
            self._over.wait(AGAIN_S)

    def _said(self, *arguments):
        return subprocess.run(
            [*self._kubectl, *arguments], capture_output=True, text=True, check=True, timeout=30
        ).stdout

    def _watch(self, kind, place):
        with subprocess.Popen(
            [*self._kubectl, "get", "--raw", place], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as watch:
            self._watches.add(watch)
            try:
                for line in watch.stdout:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    self._note(kind, event["object"], gone=event["type"] == "DELETED")
            finally:
                self._watches.discard(watch)
                watch.terminate()

    def _take(self, namespace, kind, items):
        listed = {(namespace, object_["metadata"]["name"]) for object_ in items}
        with self._changed:
            gone = [object_ for key, object_ in self._held[kind].items() if key[0] == namespace and key not in listed]
        for object_ in gone:
            self._note(kind, object_, gone=True)
        for object_ in items:
            self._note(kind, object_, gone=False)

    def _note(self, kind, object_, *, gone):
        key = object_["metadata"]["namespace"], object_["metadata"]["name"]
        with self._changed:
            if gone:
                self._held[kind].pop(key, None)
            else:
                self._held[kind][key] = object_
            if kind == "pods":
                self._note_end(key, object_)
            else:
                past = self._past.setdefault(key, [])
                if past and past[-1]["metadata"]["uid"] != object_["metadata"]["uid"]:
                    past.clear()
                if not past or past[-1]["metadata"]["resourceVersion"] != object_["metadata"]["resourceVersion"]:
                    past.append(object_ | {"seenAt": time.time()})
            self._changed.notify_all()

    def _note_end(self, key, pod):
        for container in pod.get("status", {}).get("containerStatuses", ()):
            if "terminated" in container["state"]:
                self._ended[key] = pod, container["state"]["terminated"]["exitCode"]


def _labels(pod):
    return pod["metadata"].get("labels", {})
