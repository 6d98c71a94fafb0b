"""Permanent errors of S3: wrong credentials, regions and keys for encryption, and clock skew. A retry does not help."""

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

WRONG_REGION: Final = r"AuthorizationHeaderMalformed|authorization header is malformed|PermanentRedirect|[Pp]ermanent redirect|Status Code: 301"
"""The bucket is in another region, or another address of the store has it."""

WRONG_ENCRYPTION: Final = r"KMS\.\w{0,64}(?:Disabled|NotFound|InvalidState|InvalidKeyUsage)"
"""The key service (KMS) has no such key, or the key is disabled or being deleted."""

SAID: Final = (NO_KEYS, WRONG_KEYS, WRONG_CLOCK, WRONG_REGION, WRONG_ENCRYPTION)
"""Patterns of all these errors. S3 answers some of them with status 400, like a malformed request."""

PASSING: Final = r"RequestTimeout\b|Throttling|SlowDown"
"""Codes that S3 answers with status 400, and that do not concern the content of a request."""

REJECTED: Final = r"AWSBadRequestException|AWSUnsupportedFeatureException|Status Code: (?:400|405|415|501)\b"
"""The store answers that it never accepts such a request, for any other reason."""

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
REGION_HINT: Final = f"Set fs.s3a.endpoint.region, or AWS_REGION, to the region of the bucket, and fs.s3a.endpoint to its address there ({PAGE})."
ENCRYPTION_HINT: Final = (
    f"Enable the key, or set fs.s3a.encryption.key, or the default key of the bucket, to one that exists ({PAGE})."
)
REJECTED_HINT: Final = (
    f"The store answers, and rejects the request: check the settings of its client, fs.s3a.* ({PAGE})."
)


def hint_of(error: Exception, otherwise: str) -> str:
    """Return the hint for a denied access: about the setting or the clock that the error names, else `otherwise`."""
    text = whole_text(error)
    if re.search(WRONG_CLOCK, text):
        return CLOCK_HINT
    if re.search(NO_KEYS, text):
        return NO_KEYS_HINT
    if re.search(WRONG_REGION, text):
        return REGION_HINT
    if re.search(WRONG_ENCRYPTION, text):
        return ENCRYPTION_HINT
    return KEYS_HINT if re.search(WRONG_KEYS, text) else otherwise


def is_giver_busy(text: str) -> bool:
    """Return True if the service that provides keys for a role (STS) fails or throttles, which may be over in a minute."""
    failed = re.search(rf"{_GIVER}, Status Code: 5\d\d", text) is not None
    return failed or any(_GIVER in line and _TOO_OFTEN in line for line in text.split("\n"))
