"""The provenance of release files: an in-toto statement with SLSA's predicate, which `cosign attest` signs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD = "https://backfill.dev/release/v1"
"""The kind of build: `make release` with a version and a registry."""


def statement(
    subjects: Mapping[str, str], *, version: str, registry: str, revision: str, inputs: Mapping[str, str]
) -> dict[str, Any]:
    """Return the statement.

    Args:
        subjects: SHA-256 by the name of a file or an image.
        version: Version of the release.
        registry: Registry of its images.
        revision: Commit of the sources.
        inputs: SHA-256 by the path of a locked list of inputs.
    """
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD,
                "externalParameters": {"version": version, "registry": registry},
                "resolvedDependencies": [
                    {"uri": "git+sources", "digest": {"gitCommit": revision}},
                    *({"uri": path, "digest": {"sha256": digest}} for path, digest in sorted(inputs.items())),
                ],
            },
            "runDetails": {"builder": {"id": f"{BUILD}#make"}},
        },
    }
