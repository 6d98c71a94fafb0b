"""Reads an OCI archive: its manifest's digest, and a file of the image."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class ArchiveError(Exception):
    """The file is not an OCI archive of one image; the message names the missing part."""


class OciArchive:
    """One image in a tar file with the OCI image layout. Every blob is checked by its digest."""

    def __init__(self, path: Path) -> None:
        """Read the index and the manifest.

        Raises:
            ArchiveError: the file has another layout, several images, or a blob that does not match its digest.
        """
        self._path = path
        try:
            index = json.loads(self._read("index.json"))
        except (KeyError, ValueError, tarfile.TarError) as error:
            raise ArchiveError(f"{path} is not an OCI archive: {error}") from error
        manifests = [entry for entry in index.get("manifests", ()) if entry.get("mediaType") == MANIFEST]
        if len(manifests) != 1:
            raise ArchiveError(f"{path} has {len(manifests)} images; a release needs exactly one")
        self.digest: str = manifests[0]["digest"]
        """Digest of the manifest, as `sha256:…`: a registry serves the image under it."""
        self._manifest: dict[str, Any] = json.loads(self._blob(self.digest))

    @property
    def size_bytes(self) -> int:
        """Bytes of all layers, compressed, as a node fetches them."""
        return sum(int(layer["size"]) for layer in self._manifest["layers"])

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the image."""
        return json.loads(self._blob(self._manifest["config"]["digest"])).get("config", {}).get("Labels") or {}

    def file(self, name: str) -> bytes:
        """Return the content of a file of the image, from the last layer that has it.

        Args:
            name: Absolute path in the image.

        Raises:
            ArchiveError: no layer has the file.
        """
        for layer in reversed(self._manifest["layers"]):
            with tarfile.open(fileobj=io.BytesIO(self._blob(layer["digest"])), mode="r:*") as members:
                for member in members:
                    if member.isfile() and member.name.lstrip("./") == name.lstrip("/"):
                        content = members.extractfile(member)
                        assert content is not None
                        return content.read()
        raise ArchiveError(f"{self._path}: no layer has {name}")

    def _blob(self, digest: str) -> bytes:
        algorithm, _, value = digest.partition(":")
        content = self._read(f"blobs/{algorithm}/{value}")
        if hashlib.new(algorithm, content).hexdigest() != value:
            raise ArchiveError(f"{self._path}: blob {digest} is damaged")
        return content

    def _read(self, name: str) -> bytes:
        with tarfile.open(self._path) as archive:
            member = archive.extractfile(name)
            assert member is not None
            return member.read()
