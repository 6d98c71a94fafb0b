#!/usr/bin/env bash
# Makes .venv and .cache/jars from locked, hashed inputs; says exactly what is missing. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."

python=""
for one in python3.13 python3.12 python3.11 python3; do
    if command -v "$one" >/dev/null && "$one" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
        python=$one
        break
    fi
done
if [ -z "$python" ]; then
    echo "error: Python 3.11, 3.12 or 3.13 is needed. Debian 12: apt-get install python3 python3-venv; macOS: brew install python@3.12" >&2
    exit 1
fi

java_version() { "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }
case "$(java_version || true)" in
17 | 21) ;;
*)
    if [ "$(id -u)" = 0 ] && [ -z "${JAVA_HOME:-}" ] && command -v apt-get >/dev/null; then
        echo "installing Java 17 (openjdk-17-jre-headless)"
        apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null
    else
        echo "error: Java 17 or 21 is needed, found: $(java_version || echo none)." >&2
        echo "       Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17; or set JAVA_HOME." >&2
        exit 1
    fi
    ;;
esac

stamp=.venv/.backfill-$(cat requirements/dev.txt pyproject.toml requirements/jars.sha256 | sha256sum | cut -c1-16)
if [ ! -f "$stamp" ]; then
    echo "setting up .venv (once, a few minutes)"
    if ! "$python" -m venv .venv 2>/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
            "$python" -m venv .venv
        else
            echo "error: Python's venv module is missing. Debian: apt-get install python3-venv" >&2
            exit 1
        fi
    fi
    .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
    .venv/bin/python build-tools/fetch_jars.py .cache/jars
    rm -f .venv/.backfill-*
    touch "$stamp"
fi
