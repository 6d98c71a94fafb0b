"""`python -m backfill_operator.trial NAMESPACE NAME ROWS SECONDS`, which `helm test` runs.

Waits until the chart's Backfill has finished, and compares its receipt with the known number of source rows. Gives up
after SECONDS, before helm does, because helm does not report why a Backfill waits.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, Final

from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_config

from backfill_core.errors import EXIT_USAGE
from backfill_operator.kube.client import Cluster
from backfill_operator.kube.rate import wait
from backfill_operator.kube.resources import BACKFILLS, Raw
from backfill_operator.settings import OperatorSettings

LOOK_EVERY_S: Final = 1.0
UNSEEN: Final = "not seen by the operator"
HINTS: Final = {
    "PersistentVolumeClaim": "without a default storage class name a claim in trial.claim",
    UNSEEN: "see the operator's log, and whether watch.namespaces has this namespace",
}
"""Hints for users, by a string in the state of a waiting Backfill."""


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
        why = await follow(cluster, namespace, name, rows, limit_s=limit_s)
    sys.stdout.write(f"failed: {why}\n" if why else f"passed: {rows} rows, equal on both sides\n")
    return 1 if why else 0


if __name__ == "__main__":
    if len(sys.argv) != 5 or not all(number.isdigit() for number in sys.argv[3:]):
        sys.stderr.write("usage: python -m backfill_operator.trial NAMESPACE NAME ROWS SECONDS\n")
        sys.exit(EXIT_USAGE)
    sys.exit(asyncio.run(_run(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
