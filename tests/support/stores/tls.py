"""S3 servers of this machine with a certificate, as real stores have."""

from __future__ import annotations

import subprocess

from support.stores.minio import Store


def certificate(folder):
    """Make an authority and a certificate of this machine; return the authority's certificate, also as a store for Java."""
    authority, trusted = folder / "authority.crt", folder / "trusted.p12"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    commands = (
        [*made, "-subj", "/CN=authority", "-keyout", folder / "authority.key", "-out", authority],
        [*made, "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE",
         "-CA", authority, "-CAkey", folder / "authority.key", "-keyout", folder / "private.key", "-out", folder / "public.crt"],
        ["keytool", "-importcert", "-noprompt", "-alias", "here", "-file", authority, "-keystore", trusted,
         "-storepass", "changeit"],
    )  # fmt: skip
    for command in commands:
        subprocess.run([str(part) for part in command], check=True, capture_output=True)
    return authority, trusted


class TlsStore(Store):
    """A server that answers only over TLS."""

    @property
    def endpoint(self):
        """URL of the server."""
        return super().endpoint.replace("http:", "https:")


def started(folder, authority):
    """Start a server in a new folder, with TLS if there is an authority; it answers afterwards.

    Args:
        folder: The folder, beside the files of the certificate.
        authority: The authority's certificate; `SSL_CERT_FILE` must name it. `None` for a server without TLS.
    """
    folder.mkdir()
    if authority is None:
        store = Store(folder)
    else:
        certificates = folder / ".minio" / "certs"
        certificates.mkdir(parents=True)
        for file in ("public.crt", "private.key"):
            (certificates / file).write_bytes((authority.parent / file).read_bytes())
        store = TlsStore(folder)
    store.start()
    return store
