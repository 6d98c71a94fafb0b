#!/usr/bin/env bash
# image_build.sh DIR TAG [OPTIONS]: builds an image with whatever is there; BACKFILL_TEST_CLUSTER's kit loads it, too.
set -euo pipefail
dir=$1 tag=$2
shift 2
# Which sources, and whether they were changed since: the label of an image says so.
revision=$(git -C "$dir" describe --always --dirty --abbrev=40 2>/dev/null || echo unknown)
set -- --label "org.opencontainers.image.revision=$revision" "$@"
if [ -n "${BACKFILL_TEST_CLUSTER:-}" ]; then
    exec $BACKFILL_TEST_CLUSTER build-image "$dir" "$tag" "$@"
fi
for tool in docker podman; do
    # A client without its daemon builds nothing.
    if "$tool" info >/dev/null 2>&1; then exec "$tool" build -t "$tag" "$@" "$dir"; fi
done
if command -v buildah >/dev/null; then exec buildah bud -t "$tag" "$@" "$dir"; fi
echo "image: docker or podman with its daemon, or buildah, is needed (Debian: apt-get install buildah)" >&2
exit 1
