"""Permanent errors of S3: wrong or missing credentials, and clock skew. A retry does not help."""

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
"""Codes of S3 and the corresponding messages; an exception may contain either."""

WRONG_CLOCK: Final = r"RequestTimeTooSkewed|difference between the request time and the"

NO_KEYS: Final = r"No AWS Credentials provided|NoAwsCredentials|NoAuthWithAWS|StsException"
"""No environment variable has keys, and no service provides any: Amazon's service for roles (STS) is absent or rejected the token."""

SAID: Final = (NO_KEYS, WRONG_KEYS, WRONG_CLOCK)
"""Patterns of all these errors. S3 answers some of them with status 400, like a malformed request."""

_GIVER, _TOO_OFTEN = "Service: Sts", "Rate exceeded"

NO_KEYS_HINT: Final = (
    "Give driver and executors AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_ROLE_ARN and a valid token in the file "
    f"AWS_WEB_IDENTITY_TOKEN_FILE ({PAGE})."
)
CLOCK_HINT: Final = f"Set the clock of the driver's machine: the store accepts only requests that were signed at most 15 minutes ago ({PAGE})."
KEYS_HINT: Final = (
    "Correct AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and, for keys of a session, AWS_SESSION_TOKEN in the environment "
    f"of driver and executors, or in the Secret that provides them ({PAGE})."
)


def hint_of(error: Exception, otherwise: str) -> str:
    """Return the hint for a denied access: about credentials or the clock if the error names them, else `otherwise`."""
    text = whole_text(error)
    if re.search(WRONG_CLOCK, text):
        return CLOCK_HINT
    if re.search(NO_KEYS, text):
        return NO_KEYS_HINT
    return KEYS_HINT if re.search(WRONG_KEYS, text) else otherwise


def is_giver_busy(text: str) -> bool:
    """Return True if the service that provides keys for a role (STS) fails or throttles, which may be over in a minute."""
    failed = re.search(rf"{_GIVER}, Status Code: 5\d\d", text) is not None
    return failed or any(_GIVER in line and _TOO_OFTEN in line for line in text.split("\n"))
