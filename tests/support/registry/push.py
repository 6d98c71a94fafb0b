"""Pushes an OCI archive to a registry unchanged, as `skopeo copy --preserve-digests` does: the digest of the release stays."""

import json
import tarfile
from urllib.parse import urlencode, urlsplit

CREATED = 201


def push(archive, registry, name, tag):
    """Push the only image of an archive; return the digest under which the registry serves it.

    Args:
        archive: Path of the archive.
        registry: A `Registry`.
        name: Repository, without the host.
        tag: Tag of the image, in addition to its digest.
    """
    with tarfile.open(archive) as content:
        [described] = json.load(content.extractfile("index.json"))["manifests"]
        manifest = content.extractfile(_path(described["digest"])).read()
        image = json.loads(manifest)
        for blob in (image["config"], *image["layers"]):
            _push_blob(registry, name, blob, content.extractfile(_path(blob["digest"])))
    for reference in (described["digest"], tag):
        status, headers = registry.request(
            f"{name}/manifests/{reference}", method="PUT", content=manifest, Content_Type=described["mediaType"]
        )
        assert status == CREATED, f"{name}:{reference}: {status}"
    return headers["Docker-Content-Digest"]


def _push_blob(registry, name, blob, content):
    status, headers = registry.request(f"{name}/blobs/uploads/", method="POST", content=b"")
    assert status == 202, f"{name}: {status}"
    place = headers["Location"]
    joined = "&" if urlsplit(place).query else "?"
    status, _ = registry.request(
        f"{place}{joined}{urlencode({'digest': blob['digest']})}", method="PUT", content=content,
        Content_Length=blob["size"], Content_Type="application/octet-stream",
    )  # fmt: skip
    assert status == CREATED, f"{name}: blob {blob['digest']}: {status}"


def _path(digest):
    return f"blobs/{digest.replace(':', '/')}"
