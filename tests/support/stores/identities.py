"""Identity provider for a driver without keys: an OpenID provider on loopback, and tokens that it signs, as a cluster does for its pods.

with issuing() as issuer:
    ... a server that reads the keys of tokens from issuer.configuration
    path.write_text(issuer.token())
"""

import base64
import hashlib
import json
import math
import random
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.stores.fault_proxy import serving

AUDIENCE = "backfill"
KEY_ID = "of-a-test"
HOUR_S = 3600
PRIME_BITS = 1024
PUBLIC_EXPONENT = 65537
SHA256_OF_PKCS1 = bytes.fromhex("3031300d060960864801650304020105000420")
"""Prefix of a digest in a signature (RFC 8017, 9.2)."""

WITNESSES = 24


class RsaKey:
    """A key for one run of a test; nothing else may be signed with it."""

    def __init__(self):
        first, second = _prime(), _prime()
        self.modulus = first * second
        self._private = pow(PUBLIC_EXPONENT, -1, math.lcm(first - 1, second - 1))

    def sign(self, text):
        """Return the signature of a byte string (RS256)."""
        size = (self.modulus.bit_length() + 7) // 8
        digest = SHA256_OF_PKCS1 + hashlib.sha256(text).digest()
        padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
        return pow(int.from_bytes(padded), self._private, self.modulus).to_bytes(size)


class Issuer:
    """A provider: its address, its configuration, and tokens."""

    def __init__(self, address):
        self.address, self._key = address, RsaKey()

    @property
    def configuration(self):
        """URL at which a server finds how to check tokens."""
        return f"{self.address}/.well-known/openid-configuration"

    def document(self, path):
        """Return the document at a path."""
        if path == "/keys":
            parts = {"n": self._key.modulus, "e": PUBLIC_EXPONENT}
            numbers = {name: _text(value.to_bytes((value.bit_length() + 7) // 8)) for name, value in parts.items()}
            return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY_ID, **numbers}]}
        pages = {f"{name}_endpoint": f"{self.address}/{name}" for name in ("authorization", "token", "userinfo")}
        return {"issuer": self.address, "jwks_uri": f"{self.address}/keys", **pages}

    def token(self, lives_s=HOUR_S):
        """Return a token for a driver; with a negative lifetime it has expired."""
        now = int(time.time())
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        claims = {
            "iss": self.address, "sub": "system:serviceaccount:tenant:spark", "aud": AUDIENCE, "azp": AUDIENCE,
            "iat": now - HOUR_S, "exp": now + lives_s,
        }  # fmt: skip
        signed = ".".join(_text(json.dumps(part).encode()) for part in (head, claims))
        return f"{signed}.{_text(self._key.sign(signed.encode()))}"


def role_of_minio():
    """Return the name that MinIO gives to the only role of a provider."""
    return f"arn:minio:iam:::role/{_text(hashlib.sha1(AUDIENCE.encode(), usedforsecurity=False).digest())}"


@contextmanager
def issuing():
    """Give a provider while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = json.dumps(issuer.document(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(f"http://127.0.0.1:{server.server_address[1]}")
    with serving(server):
        yield issuer


def _text(value):
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _prime():
    chance = random.SystemRandom()
    while True:
        # Set the two highest bits, so that the product of two primes has all its bits.
        candidate = chance.getrandbits(PRIME_BITS) | 3 << (PRIME_BITS - 2) | 1
        if candidate % PUBLIC_EXPONENT != 1 and _is_prime(candidate, chance):
            return candidate


def _is_prime(number, chance):
    """Run Miller and Rabin's test; it is wrong once in 4 ** WITNESSES."""
    if any(number % small == 0 for small in range(3, 2000, 2)):
        return False
    twos = ((number - 1) & -(number - 1)).bit_length() - 1
    odd = (number - 1) >> twos
    for _ in range(WITNESSES):
        power = pow(chance.randrange(2, number - 1), odd, number)
        if power in (1, number - 1):
            continue
        if not any((power := power * power % number) == number - 1 for _ in range(twos - 1)):
            return False
    return True
