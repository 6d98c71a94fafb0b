"""Talks to a running driver."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from backfill_api.progress import Progress
from backfill_api.receipt import Receipt
from backfill_api.wire import Ack, Command, CommandRequest
from backfill_core.errors import BackfillError
from backfill_spark.rendezvous import Address, running


class NotRunningError(BackfillError):
    """No driver of the job runs on this machine."""

    reason = "NotRunning"
    exit_code = 4


class Client:
    """One running driver."""

    def __init__(self, address: Address) -> None:
        """Take where it is."""
        self.address = address

    def progress(self) -> Progress:
        """Ask how far it is."""
        words = self._call("/v1/progress")
        words.pop("jobId", None)
        return Progress.model_validate(words)

    def receipt(self) -> Receipt | None:
        """Ask for the newest receipt."""
        words = self._call("/v1/receipt")
        return None if words is None else Receipt.model_validate(words)

    def command(self, command: Command, wait_s: float) -> Ack:
        """Send a command as the next revision, and wait for its acknowledgement.

        Somebody else may take the revision first; then the next one is tried.
        """
        revision = self.progress().revision + 1
        for _ in range(10):
            request = CommandRequest(attempt=self.address.attempt, revision=revision, command=command)
            body = request.model_dump_json(by_alias=True, exclude_none=True).encode()
            ack = Ack.model_validate(self._call(f"/v1/command?wait={wait_s}", body, wait_s + 5))
            if ack.outcome != "Superseded":
                return ack
            revision += 1
        return ack

    def _call(self, path: str, body: bytes | None = None, timeout_s: float = 5) -> Any:
        request = urllib.request.Request(self.address.url + path, data=body)  # noqa: S310 - from our own file
        request.add_header("Authorization", f"Bearer {self.address.token}")
        try:
            with urllib.request.urlopen(request, timeout=timeout_s) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 409:
                return json.load(error)
            raise NotRunningError(f"the driver refused: {error.read().decode(errors='replace')}") from error
        except OSError as error:
            raise NotRunningError(
                f"the driver of {self.address.job_id!r} does not answer: {error}", cure="It may just have ended."
            ) from error


def find(state_dir: Path, job_id: str | None) -> Client:
    """Return the running driver of a job, or the only one that runs.

    Raises:
        NotRunningError: there is none, or there are several and none was named.
    """
    addresses = running(state_dir)
    matching = [one for one in addresses if job_id in (None, one.job_id)]
    if len(matching) == 1:
        return Client(matching[0])
    names = ", ".join(one.job_id for one in addresses)
    if not matching:
        wanted = f"job {job_id!r} does not run" if job_id else "no backfill runs"
        raise NotRunningError(f"{wanted} on this machine.", cure=f"There is: {names}." if names else "Start it with `backfill run`.")
    raise NotRunningError(f"several backfills run: {names}.", cure="Name one with -f FILE or --job ID.")
