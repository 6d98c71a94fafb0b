"""Errors of `kubectl backfill` about the cluster; each message names the verb, the object or the field."""

from __future__ import annotations

from backfill_core.errors import EXIT_USAGE, BackfillError


class KubeconfigInvalidError(BackfillError):
    """The kubeconfig cannot be used, and this process runs in no pod."""

    reason = "KubeconfigInvalid"
    exit_code = EXIT_USAGE


class BackfillNotFoundError(BackfillError):
    """The cluster has no such Backfill, pod or namespace."""

    reason = "BackfillNotFound"
    exit_code = 4


class ForbiddenError(BackfillError):
    """The user lacks a right on the cluster; the message names the verb and the resource."""

    reason = "Forbidden"
    exit_code = 6


class CrdMissingError(BackfillError):
    """The cluster does not define Backfills."""

    reason = "CrdMissing"
    exit_code = 6


class VersionTooOldError(BackfillError):
    """The CRD or the operator of the cluster is older than the command needs; the message names the field."""

    reason = "VersionTooOld"
    exit_code = 6


class WriteRefusedError(BackfillError):
    """The API server or an admission policy rejects the change; the message quotes it."""

    reason = "WriteRefused"
    exit_code = 6


class ApiServerSilentError(BackfillError):
    """The API server does not answer, or its answer is not JSON."""

    reason = "ApiServerSilent"
    retryable = True
    exit_code = 66


class WriteConflictError(BackfillError):
    """Other clients changed the Backfill during each try of a write."""

    reason = "WriteConflict"
    retryable = True
    exit_code = 67
