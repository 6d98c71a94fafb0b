"""`python -m backfill_operator.trial NAMESPACE NAME ROWS SECONDS`, which `helm test` runs.

Waits until the chart's Backfill has finished, and compares its receipt with the known number of source rows. Gives up
after SECONDS, before helm does, because helm does not report why a Backfill waits. The pod is deleted with the operator's account.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Final

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_config

from backfill_core.errors import EXIT_USAGE
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.errors import ApiError, ConflictError
from backfill_operator.kube.rate import wait
from backfill_operator.kube.resources import BACKFILLS, PODS, Raw
from backfill_operator.settings import OperatorSettings

LOOK_EVERY_S: Final = 1.0
UNSEEN: Final = "not seen by the operator"
HINTS: Final = {
    "PersistentVolumeClaim": "without a default storage class name a claim in trial.claim",
    UNSEEN: "see the operator's log, and whether watch.namespaces has this namespace",
}
"""Hints for users, by a string in the state of a waiting Backfill."""
TOKEN_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


async def own(cluster: Cluster, token: str) -> str:
    """Make the account of a pod's token the owner of this pod; return why it is not, or empty.

    helm deletes the account when it uninstalls, and leaves the pods of tests.
    """
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["kubernetes.io"]
        account, namespace, name = claims["serviceaccount"], claims["namespace"], claims["pod"]["name"]
        owner = {"apiVersion": "v1", "kind": "ServiceAccount", "name": account["name"], "uid": account["uid"]}
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return "the token does not name the pod and its account"
    set_owner = partial(_set_owner, cluster, namespace, name, owner)
    try:
        try:
            return await set_owner()
        except ConflictError:  # a kubelet writes the pod's state at the same time
            return await set_owner()
    except ApiError as error:
        return str(error)


async def _set_owner(cluster: Cluster, namespace: str, name: str, owner: Raw) -> str:
    """Give a pod its owner; return why it has none, or empty."""
    pod = await cluster.get(PODS, namespace, name)
    if pod is None:
        return f"{name} is gone"
    change = {"metadata": {"ownerReferences": [owner]}}
    await cluster.patch(PODS, namespace, name, change, resource_version=pod["metadata"]["resourceVersion"])
    return ""


def verdict(backfill: Raw | None, rows: int) -> tuple[bool, str]:
    """Return whether the trial has ended, and the reason of a failure; the reason is empty if it runs or has passed.

    Args:
        backfill: The current object; `None` if it does not exist.
        rows: Number of rows in the source, which the target must also have.
    """
    if backfill is None:
        return True, "the Backfill is gone"
    status: dict[str, Any] = backfill.get("status") or {}
    conditions = {
        condition["type"]: condition for condition in status.get("conditions") or () if condition["status"] == "True"
    }
    if stalled := conditions.get("Stalled"):
        return True, f"{stalled['reason']}: {stalled.get('message', '')}"
    if "Complete" not in conditions:
        return False, ""
    receipt = status.get("receipt") or {}
    equal = receipt.get("mismatches") == 0 == receipt.get("fileMismatches", 0)
    if not equal or receipt.get("rows") != rows:
        return True, f"the target should have {rows} rows that equal the source's; the receipt says {receipt}"
    return True, ""


def state(backfill: Raw | None) -> str:
    """Return the phase of a Backfill, and the message of its condition `Ready`, which explains a wait."""
    status: dict[str, Any] = (backfill or {}).get("status") or {}
    ready: dict[str, Any] = next(
        (condition for condition in status.get("conditions") or () if condition["type"] == "Ready"), {}
    )
    return ": ".join(text for text in (status.get("phase") or UNSEEN, ready.get("message")) if text)


async def follow(cluster: Cluster, namespace: str, name: str, rows: int, *, limit_s: float) -> str:
    """Wait until the Backfill ends or the time limit is reached; print each state. Return the reason of a failure, or empty."""
    shown, deadline_s = "", time.monotonic() + limit_s
    while True:
        backfill = await cluster.get(BACKFILLS, namespace, name)
        if (now := state(backfill)) != shown:
            shown = now
            sys.stdout.write(f"{shown}\n")
            sys.stdout.flush()
        over, why = verdict(backfill, rows)
        if over:
            return why
        if time.monotonic() >= deadline_s:
            hints = [hint for cause, hint in HINTS.items() if cause in shown]
            look = f"kubectl -n {namespace} describe backfill {name}"
            return "; ".join([f"not complete after {limit_s:g} s: {shown}", *hints, f"{look} shows more"])
        await wait(LOOK_EVERY_S)


async def _run(namespace: str, name: str, rows: int, limit_s: float) -> int:
    configuration = Configuration()
    await load_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    async with Cluster(configuration, OperatorSettings()) as cluster:
        stays = await own(cluster, TOKEN_FILE.read_text()) if TOKEN_FILE.exists() else "it has no token"
        if stays:
            sys.stdout.write(f"this pod stays after `helm uninstall`: {stays}\n")
        why = await follow(cluster, namespace, name, rows, limit_s=limit_s)
    sys.stdout.write(f"failed: {why}\n" if why else f"passed: {rows} rows, equal on both sides\n")
    return 1 if why else 0


if __name__ == "__main__":
    if len(sys.argv) != 5 or not all(number.isdigit() for number in sys.argv[3:]):
        sys.stderr.write("usage: python -m backfill_operator.trial NAMESPACE NAME ROWS SECONDS\n")
        sys.exit(EXIT_USAGE)
    sys.exit(asyncio.run(_run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
