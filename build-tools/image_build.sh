#!/usr/bin/env bash
# image_build.sh DIR TAG [OPTIONS]: build an image with the first available tool; the kit of BACKFILL_TEST_CLUSTER also loads it.
set -euo pipefail
dir=$1 tag=$2
shift 2
# The image's label records the revision of the sources, and uncommitted changes.
revision=$(git -C "$dir" describe --always --dirty --abbrev=40 2>/dev/null || echo unknown)
set -- --label "org.opencontainers.image.revision=$revision" "$@"
if [ -n "${BACKFILL_TEST_CLUSTER:-}" ]; then
    exec $BACKFILL_TEST_CLUSTER build-image "$dir" "$tag" "$@"
fi
for tool in docker podman; do
    # A client without its daemon cannot build.
    if "$tool" info >/dev/null 2>&1; then exec "$tool" build -t "$tag" "$@" "$dir"; fi
done
if command -v buildah >/dev/null; then exec buildah bud -t "$tag" "$@" "$dir"; fi
echo "image: docker or podman with its daemon, or buildah, is needed (Debian: apt-get install buildah)" >&2
exit 1
