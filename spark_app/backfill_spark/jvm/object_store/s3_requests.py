"""Requests to an S3 store with the clients of Hadoop's file systems: their credentials, retries, proxies and statistics.

Settings of new objects (encryption, ACL, storage class) are those of the target's file system, as for its own writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from backfill_core.file_copies.store_digest import FULL_OBJECT, full_crc32c
from backfill_spark.jvm.errors import JAVA_ERRORS
from backfill_spark.jvm.gateway import hadoop_conf, java
from backfill_spark.jvm.object_store.s3_settings import pays_for_requests

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHECKSUM = "CRC32C"
PURPOSE = "backfill"
"""Name of these requests in the store's access log, and of the client that Hadoop is asked for."""

HADOOPS_OWN = "org.apache.hadoop.fs.s3a."
"""Package of Hadoop's own client; some clouds put another one in its place."""

WRITE_SETTINGS = {
    "acl": "aclAsString",
    "serverSideEncryption": "serverSideEncryptionAsString",
    "ssekmsKeyId": "ssekmsKeyId",
    "ssekmsEncryptionContext": "ssekmsEncryptionContext",
    "bucketKeyEnabled": "bucketKeyEnabled",
    "storageClass": "storageClassAsString",
}
"""Settings of a new object, each with the method that reads it from a request of Hadoop."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as the store describes it."""

    size_bytes: int
    etag: str
    digest: str | None
    """CRC-32C of all its bytes, hexadecimal; `None` if the store has none."""


@dataclass(frozen=True, slots=True)
class CopiedPart:
    """A copied part of an object."""

    number: int
    etag: str
    checksum: str | None


class S3Folder:
    """The objects below one folder. Thread-safe."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Find the file system and its client; sends no request.

        Raises:
            JAVA_ERRORS: the file system cannot be opened.
        """
        self._jvm, self.folder = java(spark), folder.rstrip("/")
        path = self._jvm.org.apache.hadoop.fs.Path(self.folder)
        self.files: Any = path.getFileSystem(hadoop_conf(spark))
        self.bucket = str(path.toUri().getHost())
        self._prefix = str(path.toUri().getPath()).strip("/")
        self.client: Any = self.files.getS3AInternals().getAmazonS3Client(PURPOSE)
        self.model: Any = self._jvm.software.amazon.awssdk.services.s3.model
        self.head: Any = self.model.HeadObjectRequest.builder().bucket(self.bucket).checksumMode("ENABLED").build()

    @staticmethod
    def of(spark: SparkSession, folder: str) -> S3Folder | None:
        """Return the objects below a folder; `None` if it is not on S3, or if another client than Hadoop's own reaches it."""
        files = java(spark).org.apache.hadoop.fs.Path(folder).getFileSystem(hadoop_conf(spark))
        is_own = str(files.getClass().getName()).startswith(HADOOPS_OWN)
        return S3Folder(spark, folder) if is_own else None

    def key(self, below: str) -> str:
        """Return the key of an object below the folder."""
        return f"{self._prefix}/{below}" if self._prefix else below

    @contextmanager
    def span(self, operation: str, below: str) -> Iterator[None]:
        """Attribute the requests of the block to an operation, which Hadoop's audit requires."""
        span = self.files.createSpan(operation, self.key(below), None)
        span.activate()
        try:
            yield
        finally:
            span.close()

    def describe(self, below: str) -> StoredObject:
        """Return the description of an object; sends one request.

        Raises:
            JAVA_ERRORS: the store has no such object, rejects the request, or failed.
        """
        with self.span("op_get_file_status", below):
            answer = self.client.headObject(self.head.toBuilder().key(self.key(below)).build())
        digest = full_crc32c(answer.checksumCRC32C(), answer.checksumTypeAsString())
        return StoredObject(int(answer.contentLength()), str(answer.eTag()), digest)

    def abort_uploads(self, below: str, is_old: Callable[[str], bool]) -> int:
        """Abort unfinished uploads below a folder; return their number.

        Args:
            below: The folder, below this one; empty for this one.
            is_old: Chooses the uploads by their path below that folder.

        Raises:
            JAVA_ERRORS: the keys may not list or abort uploads, or the store failed.
        """
        key, count = self.key(below).rstrip("/"), 0
        folder = f"{key}/" if key else ""
        uploads = self.files.listUploads(folder)
        while uploads.hasNext():
            upload = uploads.next()
            if is_old(str(upload.key()).removeprefix(folder)):
                self.files.abortMultipartUpload(upload)
                count += 1
        return count


class S3Copies:
    """Copies of objects from below one folder to below another, made by the store. Thread-safe."""

    def __init__(self, spark: SparkSession, source: S3Folder, target: S3Folder) -> None:
        """Prepare the requests; sends none.

        Raises:
            JAVA_ERRORS: the target's file system may not write objects in parts.
        """
        self.source, self.target = source, target
        model = target.model
        settings = target.files.getRequestFactory().newMultipartUploadRequestBuilder("-", None).build()
        copy = model.CopyObjectRequest.builder().checksumAlgorithm(CHECKSUM)
        copy = copy.sourceBucket(source.bucket).destinationBucket(target.bucket)
        for name, getter in WRITE_SETTINGS.items():
            value = getattr(settings, getter)()
            if value is not None:
                getattr(copy, name)(value)
        part = model.UploadPartCopyRequest.builder().sourceBucket(source.bucket).destinationBucket(target.bucket)
        if pays_for_requests(spark, source.folder):
            copy, part = copy.requestPayer("requester"), part.requestPayer("requester")
        self.request: Any = copy.build()
        self._part = part.build()
        self._upload = settings.toBuilder().checksumAlgorithm(CHECKSUM).checksumType(FULL_OBJECT).build()
        self._complete = model.CompleteMultipartUploadRequest.builder().bucket(target.bucket).build()
        self._abort = model.AbortMultipartUploadRequest.builder().bucket(target.bucket).build()
        self._java_list = java(spark).java.util.ArrayList

    def copy(self, source: str, target: str, etag: str) -> None:
        """Copy an object in one request, if it still has this ETag.

        Raises:
            JAVA_ERRORS: the object changed, or the store refuses or failed.
        """
        request = self.request.toBuilder().sourceKey(self.source.key(source)).destinationKey(self.target.key(target))
        with self.target.span("op_rename", target):
            self.target.client.copyObject(request.copySourceIfMatch(etag).build())

    @contextmanager
    def upload(self, target: str) -> Iterator[str]:
        """Begin an object in parts, and give its upload; abort it if the block fails.

        Raises:
            JAVA_ERRORS: the store refuses or failed.
        """
        key, client = self.target.key(target), self.target.client
        with self.target.span("op_create", target):
            upload = str(client.createMultipartUpload(self._upload.toBuilder().key(key).build()).uploadId())
        try:
            yield upload
        except BaseException:
            # What this abort leaves, the removal of orphans aborts.
            with suppress(*JAVA_ERRORS), self.target.span("op_abort", target):
                client.abortMultipartUpload(self._abort.toBuilder().key(key).uploadId(upload).build())
            raise

    def copy_part(
        self, source: str, target: str, etag: str, *, upload: str, number: int, span: tuple[int, int]
    ) -> CopiedPart:
        """Copy a part of an object; `span` is its first and its last byte.

        Raises:
            JAVA_ERRORS: the object changed, or the store refuses or failed.
        """
        request = self._part.toBuilder().sourceKey(self.source.key(source)).destinationKey(self.target.key(target))
        request = request.copySourceIfMatch(etag).copySourceRange(f"bytes={span[0]}-{span[1]}")
        with self.target.span("op_rename", target):
            answer = self.target.client.uploadPartCopy(request.uploadId(upload).partNumber(number).build())
        result = answer.copyPartResult()
        return CopiedPart(number, str(result.eTag()), result.checksumCRC32C())

    def complete(self, target: str, upload: str, parts: Sequence[CopiedPart]) -> None:
        """Make the object of its parts.

        Raises:
            JAVA_ERRORS: the store refuses or failed.
        """
        model, given = self.target.model, self._java_list()
        for part in parts:
            made = model.CompletedPart.builder().partNumber(part.number).eTag(part.etag)
            given.add((made if part.checksum is None else made.checksumCRC32C(part.checksum)).build())
        whole = model.CompletedMultipartUpload.builder().parts(given).build()
        request = self._complete.toBuilder().key(self.target.key(target)).uploadId(upload).multipartUpload(whole)
        with self.target.span("op_create", target):
            self.target.client.completeMultipartUpload(request.checksumType(FULL_OBJECT).build())


def error_of(error: Exception) -> tuple[int, str, str]:
    """Return the HTTP status, the code and the message of a failed request; 0 and empty strings if no answer came."""
    cause: Any = getattr(error, "java_exception", None)
    if cause is None or not str(cause.getClass().getName()).startswith("software.amazon.awssdk.services.s3."):
        return 0, "", ""
    details = cause.awsErrorDetails()
    code, message = ("", "") if details is None else (details.errorCode(), details.errorMessage())
    return int(cause.statusCode()), str(code or ""), str(message or "")
