#!/usr/bin/env bash
# Checks .github/workflows with actionlint, which is compiled from its Go module once.
set -euo pipefail
cd "$(dirname "$0")/.."

version=v1.7.12
tool=.cache/actionlint/$version/actionlint
if [ ! -x "$tool" ]; then
    go=$(command -v go || echo /usr/local/go/bin/go)
    if [ ! -x "$go" ]; then
        echo "workflows: go is needed to compile actionlint (Debian: apt-get install golang-go)" >&2
        exit 1
    fi
    GOBIN=$PWD/${tool%/*} "$go" install "github.com/rhysd/actionlint/cmd/actionlint@$version"
fi
exec "$tool" -no-color
