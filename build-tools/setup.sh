#!/usr/bin/env bash
# Creates .venv and .cache/jars from locked, hashed inputs, and reports missing tools. Safe to run again.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
installable() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }
apt_install() {
    say "setup: installing $1"
    apt-get update -qq >/dev/null
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}
digest() { cat "$@" | cksum | tr -c '0-9\n' '-' | tr -d '\n'; }

# Java ----------------------------------------------------------------------------------------------------------------
java_says() { "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1; }
java_major() { java_says | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1; }
java_fits() { case "$(java_major || true)" in 17 | 21) return 0 ;; *) return 1 ;; esac; }
if ! java_fits; then
    # A second Java would hide the one that the user chose, so Java is only installed by root on Debian without any Java.
    if [ -z "${JAVA_HOME:-}" ] && ! command -v java >/dev/null && installable; then
        apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless || true
    fi
    if ! java_fits; then
        found=$(java_major || true)
        say "setup: Spark needs Java 17 or 21; found: ${found:-none}${JAVA_HOME:+ (JAVA_HOME=$JAVA_HOME)}."
        say "       Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17;"
        say "       or set JAVA_HOME to an installation of one of them."
        exit 1
    fi
fi

# Python --------------------------------------------------------------------------------------------------------------
if ! .venv/bin/python -c '' 2>/dev/null; then
    python=""
    for candidate in python3.12 python3.13 python3.11 python3; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then
            python=$candidate
            break
        fi
    done
    if [ -z "$python" ]; then
        say "setup: Python 3.11, 3.12 or 3.13 is needed; found: $(python3 --version 2>&1 || echo none)."
        say "       Debian 12, Ubuntu 24.04: apt-get install python3 python3-venv; macOS: brew install python@3.12."
        exit 1
    fi
    if ! "$python" -c 'import ensurepip' 2>/dev/null && installable; then apt_install python3-venv; fi
    say "setup: making .venv with $("$python" --version); once, a few minutes"
    rm -rf .venv
    if ! "$python" -m venv .venv; then
        say "setup: Python's venv module is missing. Debian, Ubuntu: apt-get install python3-venv."
        exit 1
    fi
fi

locked=.venv/.locked-$(digest requirements/dev.txt)
if [ ! -f "$locked" ]; then
    say "setup: installing the locked packages"
    .venv/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
    rm -f .venv/.locked-*
    touch "$locked"
fi

# The locked packages include the build backend, so this step fetches nothing.
project=.venv/.project-$(digest pyproject.toml)
if [ ! -f "$project" ]; then
    .venv/bin/python -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
    rm -f .venv/.project-*
    touch "$project"
fi

# Jars ---------------------------------------------------------------------------------------------------------------
verified=.cache/jars/.verified-$(digest requirements/jars.sha256)
if [ ! -f "$verified" ]; then
    say "setup: fetching the jars of Delta and Kafka"
    .venv/bin/python -m backfill_spark.jvm.jars .cache/jars
    rm -f .cache/jars/.verified-*
    touch "$verified"
fi

# A class archive -----------------------------------------------------------------------------------------------------
# It saves a third of every start of Spark, and is valid for one Java, one folder, one .venv and one set of jars. Without it,
# Spark only starts slower.
archived=.cache/jars/.archived-$(digest <(java_says) <(pwd))
if [ ! "$archived" -nt "$locked" ] || [ ! "$archived" -nt "$verified" ]; then
    say "setup: archiving Spark's classes for faster starts, once, in a minute"
    .venv/bin/python -m backfill_spark.driver.class_archive_training .cache/jars >.cache/class_archive.log 2>&1 ||
        say "setup: no class archive could be created, so Spark starts slower; .cache/class_archive.log contains the reason"
    rm -f .cache/jars/.archived-*
    touch "$archived"
fi
