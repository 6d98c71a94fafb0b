"""What became of the Backfills of some namespaces: every status that was stored, in order, and how their pods ended.

A look at the cluster now and then misses what lasts for a moment; a watch does not.
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
        """A pod as it was last seen after its container had ended, and the exit code, by namespace and name."""

        self._over = threading.Event()
        self._watches = set()

    def start(self):
        """Begin."""
        for namespace, kind in itertools.product(self._namespaces, KINDS):
            threading.Thread(target=self._follow, args=(namespace, kind), daemon=True).start()

    def stop(self):
        """End."""
        self._over.set()
        for one in tuple(self._watches):
            one.terminate()

    # ------------------------------------------------------------ what is there, and what was
    def backfill(self, namespace, name):
        """Return a Backfill as it is; None: there is none."""
        with self._changed:
            return self._held[PLURAL].get((namespace, name))

    def past(self, namespace, name):
        """Return every version of the newest Backfill of this name, oldest first."""
        with self._changed:
            return list(self._past.get((namespace, name), ()))

    def pods(self, namespace, backfill, role):
        """Return the pods that a Backfill has now."""
        wanted = {BACKFILL_LABEL: backfill, ROLE_LABEL: role}
        with self._changed:
            found = list(self._held["pods"].items())
        return [pod for key, pod in found if key[0] == namespace and wanted.items() <= _labels(pod).items()]

    def ended(self, namespace, backfill, role="driver"):
        """Return the exit codes that the pods of a Backfill ended with, by the pod's name."""
        wanted = {BACKFILL_LABEL: backfill, ROLE_LABEL: role}
        with self._changed:
            found = list(self._ended.items())
        return {
            key[1]: code for key, (pod, code) in found if key[0] == namespace and wanted.items() <= _labels(pod).items()
        }

    def ended_pod(self, namespace, name):
        """Return a pod as it was last seen after its container had ended, also if it is gone; None: it did not end."""
        with self._changed:
            return self._ended.get((namespace, name), (None, None))[0]

    def wait(self, within_s):
        """Return when something changed, or the time is over."""
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

    def _said(self, *words):
        return subprocess.run([*self._kubectl, *words], capture_output=True, text=True, check=True, timeout=30).stdout

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
        there = {(namespace, one["metadata"]["name"]) for one in items}
        with self._changed:
            gone = [one for key, one in self._held[kind].items() if key[0] == namespace and key not in there]
        for one in gone:
            self._note(kind, one, gone=True)
        for one in items:
            self._note(kind, one, gone=False)

    def _note(self, kind, one, *, gone):
        key = one["metadata"]["namespace"], one["metadata"]["name"]
        with self._changed:
            if gone:
                self._held[kind].pop(key, None)
            else:
                self._held[kind][key] = one
            if kind == "pods":
                self._note_end(key, one)
            else:
                past = self._past.setdefault(key, [])
                if past and past[-1]["metadata"]["uid"] != one["metadata"]["uid"]:
                    past.clear()
                if not past or past[-1]["metadata"]["resourceVersion"] != one["metadata"]["resourceVersion"]:
                    past.append(one | {"seenAt": time.time()})
            self._changed.notify_all()

    def _note_end(self, key, pod):
        for container in pod.get("status", {}).get("containerStatuses", ()):
            if "terminated" in container["state"]:
                self._ended[key] = pod, container["state"]["terminated"]["exitCode"]


def _labels(pod):
    return pod["metadata"].get("labels", {})
