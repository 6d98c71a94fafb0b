"""Certificates for tests, made by openssl instead of our code."""

import subprocess


def certificate(folder, name):
    """Make a key and a certificate signed by itself; return the paths of the certificate and of the key."""
    key, out = folder / f"{name}.key", folder / f"{name}.crt"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    subprocess.run(
        [*command, "-keyout", key, "-out", out, "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    return out, key
