"""Copies that a real S3 server makes itself, and receipts from its checksums; the targets are read by delta-rs."""

import os
from collections import Counter
from urllib.parse import unquote
from xml.etree import ElementTree as ET

import pytest
from support.stores.fault_proxy import Fault
from support.stores.minio import ACCESS_KEY, SECRET_KEY
from support.stores.objects import NAMES, Keys, Request, ask, objects_at
from support.tables.jobs import job

from backfill_core.errors import SourceDamagedError
from backfill_core.file_copies.movers import ByDriver, ByStore
from backfill_spark.driver.offline_verify import verify_offline
from backfill_spark.driver.plan import plan_job
from backfill_spark.file_copies import store_copies
from backfill_spark.file_copies.bytes import ByteCopier
from backfill_spark.jvm.gateway import hadoop_conf
from backfill_spark.jvm.object_store.s3_requests import S3Copies, S3Folder
from backfill_spark.settings import DriverSettings

KEYS = Keys(ACCESS_KEY, SECRET_KEY)
REPLICA = {"strategy": {"type": "Replica"}, "source": {"version": 0, "key": []}}
PART_BYTES = 5 << 20
"""Smallest part of an object that S3 accepts."""

CONTENT = os.urandom(2 * PART_BYTES + 12_345)
"""An object of three parts."""


class Bucket:
    """Objects below a folder of this test, without Hadoop."""

    def __init__(self, endpoint, folder):
        self._endpoint, self._folder = endpoint, folder.removeprefix("s3a:/")

    def put(self, name, content):
        assert ask(self._endpoint, Request("PUT", f"{self._folder}/{name}", body=content), KEYS).status == 200

    def get(self, name):
        return ask(self._endpoint, Request("GET", f"{self._folder}/{name}"), KEYS).body

    def remove(self, name):
        assert ask(self._endpoint, Request("DELETE", f"{self._folder}/{name}"), KEYS).status == 204

    def uploads(self, name):
        """Return the unfinished uploads of an object."""
        _, bucket, key = f"{self._folder}/{name}".split("/", 2)
        answer = ask(self._endpoint, Request("GET", f"/{bucket}", {"uploads": "", "prefix": key}), KEYS)
        assert answer.status == 200
        return [found.text for found in ET.fromstring(answer.body).iter(f"{NAMES}UploadId")]


@pytest.fixture
def here(store, place):
    return Bucket(store.endpoint, place("here"))


@pytest.fixture
def there(store, place):
    return Bucket(store.endpoint, place("there"))


@pytest.fixture
def copier(spark, place, proxy):
    """A copier between the folders of this test; the store is as at the start afterwards."""
    yield ByteCopier(spark, place("here"), place("there"))
    proxy.before_copy, proxy.hidden_header = None, ""
    proxy.faults.clear()


def nothing():
    """Let a copy continue."""


def ends_at_call(number):
    """Return a check that raises at its call with this number."""
    calls = []

    def check():
        calls.append(1)
        if len(calls) == number:
            raise InterruptedError

    return check


class TestTheStoreCopies:
    """Bytes of files do not pass through the driver, neither for the copy nor for the receipt."""

    def test_a_replica_is_copied_by_the_store_and_damage_is_named(
        self, orders, place, run, rows, proxy, environment, spark, tmp_path, there
    ):
        """The store copies every file; a receipt asks for checksums, and names the file that was replaced, and the missing one."""
        outcome = run(orders, place("there"), **REPLICA)

        assert (outcome.message, outcome.outcome) == ("", "Complete")
        assert outcome.receipt.equal
        assert rows(place("there")) == rows(orders)
        copied = {path.split("?")[0].rpartition("/")[2] for path in map(unquote, proxy.copies)}
        files = [key for key in objects_at(place("there")) if key.endswith(".parquet") and "/a1/" in key]
        assert outcome.receipt.files_by_bytes > 1
        assert len([key for key in files if key.rpartition("/")[2] in copied]) >= outcome.receipt.files_by_bytes

        replaced, removed = files[:2]
        content = bytearray(there.get(replaced))
        content[len(content) // 2] ^= 1
        there.put(replaced, bytes(content))
        there.remove(removed)
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        receipt, *_ = verify_offline(
            job(orders, place("there"), verify="Final", **REPLICA), settings=settings, spark=spark
        )
        named = {difference.path: difference.what for difference in receipt.files}
        assert not receipt.equal
        assert "its bytes have the digest" in named[replaced]
        assert named[removed] == "it does not exist"

    def test_a_plan_names_the_mover_and_leaves_nothing(self, orders, place, spark, proxy, environment, tmp_path):
        """The rate is that of a trial; a refusal of the trial is the plan's reason for streams."""
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        by_store = plan_job(job(orders, place("there"), **REPLICA), settings=settings, spark=spark).mover
        denied = Fault("denied", "COPY", "/there/", 1)
        proxy.faults.append(denied)
        by_driver = plan_job(job(orders, place("there"), **REPLICA), settings=settings, spark=spark).mover

        assert (by_store.name, by_store.reason) == ("Store", "")
        assert by_store.bytes_per_second > 0
        assert by_store.requests > 0
        assert (by_driver.name, by_driver.bytes_per_second) == ("Driver", None)
        assert "AccessDenied" in by_driver.reason
        assert [key for key in objects_at(place("there")) if not key.endswith("/")] == []

    def test_a_refused_job_streams_and_reports_the_reason(
        self, orders, place, spark, rows, proxy, environment, tmp_path
    ):
        """Keys that may read and write are not always allowed to copy."""
        from backfill_spark.driver.attempt import run_driver

        proxy.faults.append(Fault("denied", "COPY", "/there/", 1))
        seen = []
        settings = DriverSettings(cores=2, state_dir=tmp_path / "state")
        backfill = job(orders, place("there"), verify="Final", **REPLICA)
        outcome = run_driver(backfill, settings=settings, spark=spark, observe=seen.append)

        assert (outcome.message, outcome.outcome) == ("", "Complete")
        assert outcome.receipt.equal
        assert rows(place("there")) == rows(orders)
        warned = {code: text for progress in seen for code, text in zip(progress.warning_codes, progress.warnings)}
        assert "AccessDenied" in warned["CopiesStreamed"]


class TestOneObject:
    """Each answer of the store has one effect."""

    def test_a_busy_store_is_asked_again(self, copier, here, there, proxy):
        """Amazon's client repeats the request some times, and the copier repeats that."""
        here.put("x", b"123456789")
        busy = Fault("slow down", "COPY", "/there/", 8)
        proxy.faults.append(busy)

        copied = copier.copy("x", "a/x", check=nothing)

        assert (copied.size_bytes, copied.digest) == (9, "e3069283")
        assert busy.met == 8
        assert there.get("a/x") == b"123456789"
        assert copier.mover == ByStore()

    def test_an_object_that_changes_before_its_copy_is_an_error(self, copier, here, proxy):
        """The copy has the ETag of the description as its condition; the server itself compares it."""
        here.put("x", b"123456789")
        proxy.before_copy = lambda: here.put("x", b"987654321")

        with pytest.raises(SourceDamagedError, match="x of the source changed while it was copied"):
            copier.copy("x", "a/x", check=nothing)

    def test_a_store_without_checksums_is_not_asked_for_copies(self, copier, here, there, proxy):
        """Its copies could not be proven, so the driver streams, and computes the digest itself."""
        here.put("x", b"123456789")
        proxy.hidden_header = "x-amz-checksum"

        assert copier.copy("x", "a/x", check=nothing).digest == "e3069283"
        assert isinstance(copier.mover, ByDriver)
        assert "CRC-32C" in copier.refusal
        assert there.get("a/x") == b"123456789"

    def test_a_streamed_object_costs_three_requests(self, copier, here, there, proxy):
        """A new name is not listed first: a listing costs as much as the write, and its time."""
        here.put("x", b"123456789")
        copier.store.end("AccessDenied", 403, "denied")
        before = Counter(proxy.asked)

        assert copier.copy("x", "a/x", check=nothing).digest == "e3069283"
        asked = Counter(method for method, _ in (proxy.asked - before).elements())
        assert asked == {"HEAD": 1, "GET": 1, "PUT": 1}
        assert there.get("a/x") == b"123456789"

    def test_a_missing_object_is_an_error_of_hadoop_and_no_refusal(self, copier):
        """The error is explained as that of a stream."""
        with pytest.raises(Exception, match="FileNotFoundException"):
            copier.copy("gone", "a/x", check=nothing)
        assert copier.mover == ByStore()

    def test_an_object_in_parts_is_copied_whole_or_leaves_nothing(self, copier, here, there, proxy, monkeypatch):
        """A cancelled or refused copy aborts its upload, so that its parts cost nothing."""
        monkeypatch.setattr(store_copies, "COPY_MAX_BYTES", PART_BYTES)
        monkeypatch.setattr(store_copies, "PART_BYTES", PART_BYTES)
        here.put("x", CONTENT)

        with pytest.raises(InterruptedError):
            copier.copy("x", "cancelled", check=ends_at_call(3))
        assert there.uploads("cancelled") == []
        copied = copier.copy("x", "whole", check=nothing)
        assert there.get("whole") == CONTENT
        assert copied.size_bytes == len(CONTENT)
        assert copied.digest == copier._reader.read("x", check=nothing).digest  # noqa: SLF001
        proxy.faults.append(Fault("denied", "COPY", "partNumber=2", 1))
        copier.copy("x", "refused", check=nothing)
        assert there.uploads("refused") == []
        assert there.get("refused") == CONTENT
        assert isinstance(copier.mover, ByDriver)

    def test_uploads_of_dead_attempts_are_aborted(self, spark, place, there):
        """Those of the running attempt stay."""
        copies = S3Copies(spark, S3Folder(spark, place("here")), S3Folder(spark, place("there")))
        begun = [copies.upload(f"backfill-x/{attempt}/s1/x") for attempt in ("a1", "a2")]
        for upload in begun:
            upload.__enter__()  # the driver dies in this block
        assert len(there.uploads("backfill-x/a1/s1/x")) == 1

        count = S3Folder(spark, place("there")).abort_uploads("backfill-x", lambda below: below.startswith("a1/"))

        assert count == 1
        assert there.uploads("backfill-x/a1/s1/x") == []
        assert len(there.uploads("backfill-x/a2/s1/x")) == 1
        begun[1].__exit__(InterruptedError, InterruptedError(), None)
        assert there.uploads("backfill-x/a2/s1/x") == []


class TestTheSettingsOfACopy:
    """A copy is written as Hadoop writes to the target's bucket, and read as it reads the source's."""

    SETTINGS = {
        "fs.s3a.impl.disable.cache": "true",
        "fs.s3a.bucket.there.encryption.algorithm": "SSE-KMS",
        "fs.s3a.bucket.there.encryption.key": "arn:aws:kms:eu-1:1:key/new",
        "fs.s3a.bucket.there.acl.default": "BucketOwnerFullControl",
        "fs.s3a.bucket.there.create.storage.class": "standard_ia",
        "fs.s3a.bucket.here.requester.pays.enabled": "true",
    }

    def test_encryption_access_class_and_payer_reach_the_requests(self, spark, place):
        """Without the key of the target's bucket its policy rejects the copy; without the payer the source's does."""
        conf = hadoop_conf(spark)
        for name, value in self.SETTINGS.items():
            conf.set(name, value)
        try:
            copies = S3Copies(spark, S3Folder(spark, place("here")), S3Folder(spark, place("there")))
        finally:
            for name in self.SETTINGS:
                conf.unset(name)
        copy = copies.request

        assert str(copy.serverSideEncryptionAsString()) == "aws:kms"
        assert str(copy.ssekmsKeyId()) == "arn:aws:kms:eu-1:1:key/new"
        assert str(copy.aclAsString()) == "bucket-owner-full-control"
        assert str(copy.storageClassAsString()) == "STANDARD_IA"
        assert str(copy.requestPayerAsString()) == "requester"
        assert str(copy.checksumAlgorithmAsString()) == "CRC32C"
