"""Certificates for tests, made by openssl instead of our code."""

import subprocess


def certificate(folder, name, address="127.0.0.1"):
    """Make a key and a certificate of an address, signed by itself; return the paths of the certificate and of the key."""
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
        [*command, "-keyout", key, "-out", out, "-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}"],
        check=True, capture_output=True,
    )  # fmt: skip
    return out, key
