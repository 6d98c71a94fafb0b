"""A store that accepts a request and never answers: the client's timeout expires, and it retries."""

import json
import os

import pytest
from support.endings import assert_ending
from support.stores.fault_proxy import Fault
from support.stores.minio import credentials, for_delta_rs, for_spark
from support.tables.jobs import write_yaml
from support.tables.other_engine import append, delete

from backfill_api.status.ending import Ending
from backfill_core.pacing.barrier_pulse import GIVEN_UP_S

ORDERS = "SELECT value AS id, value % 7 AS kind, concat('\u2028 ', value) AS note FROM generate_series({first}, {last})"
ROWS = 400
PATIENCE = {"spark.hadoop.fs.s3a.connection.timeout": "15s"}
"""Hadoop's default is 200 seconds, and 15 is the minimum that it accepts."""


@pytest.fixture
def source(store, place, monkeypatch):
    """Two files, and a change after version 0."""
    for name, value in for_delta_rs(store.endpoint).items():
        monkeypatch.setitem(os.environ, name.upper(), value)
    at = place("here")
    for first in (0, ROWS):
        append(at, ORDERS, first, ROWS)
    delete(at, "id % 10 = 4")
    return at


def test_requests_to_a_stalled_store_are_retried(source, place, process, rows, proxy, tmp_path):
    """The store stalls while a file is read, while one is written, and in a commit: no row is lost, and no row is doubled."""
    there = place("there").removeprefix("s3a:/")
    faults = [
        Fault("stall", "GET", f"{source.removeprefix('s3a:/')}/part-", 1),
        Fault("stall", "PUT", f"{there}/part-", 1),
        Fault("stall", "PUT", f"{there}/_delta_log/{2:020d}.json", 1),
    ]
    proxy.faults.extend(faults)
    spark = {"conf": for_spark(proxy.endpoint) | PATIENCE}
    file = write_yaml(tmp_path / "job.yaml", source, place("there"), source={"version": 1}, verify="Final", spark=spark)

    ended = process(file, **credentials())

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [(fault.met, fault.left) for fault in faults] == [(1, 1)] * 3, "the client leaves before the proxy does"
    assert rows(place("there")) == rows(source)


@pytest.mark.rest
def test_driver_whose_commit_hangs_is_ended_and_the_next_one_continues(source, place, process, rows, proxy, tmp_path):
    """Java answers, but the store accepts the commit and stays silent: such a driver hung for ever, without a barrier."""
    there, log = place("there").removeprefix("s3a:/"), tmp_path / "termination"
    # The client retries each minute, so more than one request stalls.
    fault = Fault("stall", "PUT", f"{there}/_delta_log/{2:020d}.json", 10, stalls_s=2 * round(GIVEN_UP_S))
    proxy.faults.append(fault)
    file = write_yaml(
        tmp_path / "job.yaml", source, place("there"), source={"version": 1}, verify="Final", spark={"conf": for_spark(proxy.endpoint)},
    )  # fmt: skip

    hung = process(file, BACKFILL_TERMINATION_LOG=str(log), **credentials())
    ending = Ending.read(log.read_text())
    proxy.faults.clear()
    again = process(file, **credentials())

    assert ending is not None, hung.stdout + hung.stderr
    assert_ending(ending.model_dump(), "CommitStalled", hung.returncode)
    assert any("CommitStalled" in json.loads(line).get("warningCodes", ()) for line in hung.stdout.splitlines())
    assert ending.outside
    assert again.returncode == 0, again.stdout + again.stderr
    assert rows(place("there")) == rows(source)
