"""When staged rows become visible: the conditions of a publication, and the effect of each commit on it.

`Publish`         its commit follows                                         what must be true
---------------   --------------------------------------------------------   ------------------------------------------
Continuously      there is none: each commit makes its files visible
WhenComplete      the commit of the last row of history                      nothing holds changes, no stop is in force
WhenVerified      an equal receipt over the staged files of all of history   the same

A commit of files never publishes, so a publication adds only files that an earlier state names. Changes wait for it: a MERGE reads
the target's rows. A key is proven in the source before the job's first write, because no proof reads staged files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backfill_api.spec.spec import BackfillSpec
from backfill_core.protocol.publication import ManifestPart, ManifestWrite, Publication, Publish
from backfill_core.protocol.receipt import TableReceipt
from backfill_core.protocol.work import Position, StagedFile


@dataclass(frozen=True, slots=True)
class PublicationStep:
    """Effect of one commit on a publication."""

    publication: Publication | None = None
    """State after the commit."""

    manifest: ManifestWrite | None = None
    publishes: tuple[ManifestPart, ...] | None = None
    scope_pin: int | None = None
    """See `Publication.scope_pin`."""


def first_publication(spec: BackfillSpec, version: int) -> Publication | None:
    """Return the publication of a job that begins on a version of its target; `None` if each commit makes its rows visible."""
    target = spec.target.params
    if Publish(target.publish) is Publish.CONTINUOUSLY:
        return None
    return Publication(scope_pin=None if target.scope is None else version)


def step_of(
    publication: Publication | None, files: Sequence[StagedFile], txn: int, *, publishes: bool
) -> PublicationStep:
    """Return the effect of a commit of files; a commit that `publishes` has none."""
    if publication is None:
        return PublicationStep()
    if publishes:
        assert not files
        after = replace(publication, published=True, parts=())
        return PublicationStep(after, publishes=publication.parts, scope_pin=publication.scope_pin)
    after, manifest = publication.staged(files, txn)
    return PublicationStep(after, manifest, scope_pin=publication.scope_pin)


def is_hidden(publication: Publication | None) -> bool:
    """Return whether rows of the job are staged for a later publication; changes wait until they are visible."""
    return publication is not None and not publication.published


def hidden_parts(publication: Publication | None) -> tuple[ManifestPart, ...] | None:
    """Return the parts of the manifest that lists the rows of the job; `None` if they are visible."""
    return publication.parts if publication is not None and not publication.published else None


def is_audited(receipt: TableReceipt | None) -> bool:
    """Return whether a receipt proves all of history; one of an incomplete history does not."""
    return receipt is not None and receipt.equal and receipt.complete


def may_publish(publish: Publish, receipt: TableReceipt | None) -> bool:
    """Return whether the rows may become visible, once all of history is staged."""
    return publish is not Publish.WHEN_VERIFIED or is_audited(receipt)


def needs_audit(publish: Publish, receipt: TableReceipt | None) -> bool:
    """Return whether the staged files must be compared, once all of history is staged; a receipt of a difference ends the job."""
    return publish is Publish.WHEN_VERIFIED and (receipt is None or (receipt.equal and not receipt.complete))


def receipt_of_published(receipt: TableReceipt | None, version: int) -> TableReceipt | None:
    """Return the receipt of the staged rows once they are visible at a version of the target."""
    return None if receipt is None else replace(receipt, target_version=version)


def proves_end(publish: Publish, receipt: TableReceipt | None, position: Position) -> bool:
    """Return whether the receipt of the publication is also the last one: no version of the source was applied after it."""
    return (
        publish is Publish.WHEN_VERIFIED
        and receipt is not None
        and is_audited(receipt)
        and receipt.source_version == position
    )
