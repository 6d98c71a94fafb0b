#!/usr/bin/env bash
# image_export.sh TAG FILE: write a built image as an OCI archive, with the tool that image_build.sh would choose.
set -euo pipefail
tag=$1 file=$2
rm -f "$file"
if docker info >/dev/null 2>&1; then exec docker save -o "$file" "$tag"; fi # Docker writes the OCI layout since version 25
if podman info >/dev/null 2>&1; then exec podman save -q --format oci-archive -o "$file" "$tag"; fi
if command -v buildah >/dev/null; then exec buildah push -q "$tag" "oci-archive:$file"; fi
echo "image: docker or podman with its daemon, or buildah, is needed (Debian: apt-get install buildah)" >&2
exit 1
