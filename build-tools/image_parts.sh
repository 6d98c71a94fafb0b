#!/usr/bin/env bash
# Puts the inputs of the images into build/image: wheels of requirements/image.txt, our own wheel, the jars of Delta and Kafka.
set -euo pipefail
cd "$(dirname "$0")/.."

locked=build/image/.locked-$(cksum <requirements/image.txt | tr -c '0-9\n' '-')
if [ ! -f "$locked" ]; then
    echo "image: wheels of requirements/image.txt (pyspark is built from its source, which takes a minute)"
    rm -rf build/image/wheels && mkdir -p build/image/wheels
    .venv/bin/python -m pip wheel -q --disable-pip-version-check --require-hashes --no-deps -r requirements/image.txt -w build/image/wheels
    rm -f build/image/.locked-*
    touch "$locked"
fi
rm -f build/image/wheels/backfill_operator-*
.venv/bin/python -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w build/image/wheels .
rm -rf build/image/jars && mkdir -p build/image/jars && cp .cache/jars/*.jar build/image/jars/
rm -rf build/image/tools && mkdir -p build/image/tools && cp build-tools/sbom.py build-tools/image/*.* requirements/image.txt build/image/tools/
