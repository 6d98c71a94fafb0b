"""What S3 says of the keys and of the clock of who asks; neither becomes right by asking again."""

from __future__ import annotations

import re
from typing import Final

from backfill_spark.jvm.errors import whole_text

PAGE: Final = "docs/object-stores.md"

WRONG_KEYS: Final = (
    r"InvalidAccessKeyId|SignatureDoesNotMatch|InvalidTokenId|ExpiredToken|Access Key Id you provided does not exist|"
    r"request signature we calculated does not match|security token included in the request is (?:invalid|expired)|"
    r"provided token (?:has expired|is malformed)"
)
"""Codes of S3, and its words for them: an exception may have either."""

WRONG_CLOCK: Final = r"RequestTimeTooSkewed|difference between the request time and the"

CLOCK_HINT: Final = (
    f"Set the clock of the driver's machine: the store takes requests that were signed at most 15 minutes ago ({PAGE})."
)
KEYS_HINT: Final = (
    "Correct AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for keys of a session, AWS_SESSION_TOKEN in the environment "
    f"of driver and executors, or in the Secret from which they come ({PAGE})."
)


def hint_of(error: Exception, otherwise: str) -> str:
    """Return what to do about a refusal: about keys or the clock where the store speaks of them, else what the caller says."""
    text = whole_text(error)
    if re.search(WRONG_CLOCK, text):
        return CLOCK_HINT
    return KEYS_HINT if re.search(WRONG_KEYS, text) else otherwise
