"""The variables that a template may set; a variable can be code for the loader, Java, Python or a shell.

Names that the administrator lists are allowed. Some names cannot be allowed: they would run code inside our process, or
replace values that the operator sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from backfill_api.crd.explain import shown
from backfill_api.spec.secret_settings import holds_a_secret
from backfill_core.cluster_rules.finding import Finding, each
from backfill_core.cluster_rules.limits import Limits, named, permission
from backfill_core.cluster_rules.shapes import mapping, text

NEVER: Final = (
    # this project and Spark
    "BACKFILL_*", "SPARK_*", "_SPARK_*", "PYSPARK_*", "HADOOP_*", "HIVE_*", "YARN_*", "LOCAL_DIRS", "MASTER",
    # Java
    "JAVA_*", "_JAVA_*", "JDK_*", "JRE_*", "JVM_*", "IBM_JAVA_*", "OPENJ9_*", "CLASSPATH", "SCALA_*",
    # Python
    "PYTHON*", "__PYVENV*", "VIRTUAL_ENV",
    # the loader, the C library, OpenSSL, shells
    "LD_*", "DYLD_*", "GLIBC_*", "MALLOC_*", "GCONV_PATH", "LOCPATH", "NLSPATH", "NIS_PATH", "RESOLV_*", "RES_OPTIONS",
    "HOSTALIASES", "LOCALDOMAIN", "TZ", "TZDIR", "OPENSSL_*", "SSL_*", "PATH", "HOME", "USER", "LOGNAME", "SHELL", "PWD", "TMPDIR",
    "TMP", "TEMP", "IFS", "ENV", "BASH*", "SHELLOPTS", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE",
    "LC_*", "LANG", "LANGUAGE", "KUBERNETES_*", "KUBECONFIG",
    # store clients: this variable lets a credentials file name a command
    "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES",
)  # fmt: skip
"""Variables that determine the running code or the computed values. All but the last one are read by programs other than store clients."""

SOURCES: Final = frozenset({"secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef"})


def env_findings(env: Iterable[Mapping[str, Any]], path: str, limits: Limits) -> Iterator[Finding]:
    """Yield each variable that is not allowed, and each secret that is written in the spec itself."""
    for number, variable in enumerate(env):
        yield from each(_variable(variable, f"{path}[{number}]", limits))


def _variable(variable: Mapping[str, Any], here: str, limits: Limits) -> Iterator[Finding]:
    name = text(variable, "name", here, hint="name the variable")
    if named(name, NEVER):
        message = "is a variable that decides what runs, or is the operator's"
        yield Finding(f"{here}.name", message, "remove it", shown(name))
    elif not (named(name, limits.env) or f"{name}={variable.get('value')}" in limits.env):
        setting = permission("ALLOWED_ENV", "its name, or NAME=value for this value only,")
        yield Finding(f"{here}.name", "is a variable that is not allowed", "remove it", shown(name), setting)
    for field in variable:
        if field not in ("name", "value", "valueFrom"):
            yield Finding(f"{here}.{field}", "is not for a template", "use value or valueFrom")
    if variable.get("value") and holds_a_secret(name):
        remedy = "put it into a Secret, and name that with valueFrom.secretKeyRef"
        yield Finding(f"{here}.value", "would be a secret that every reader of the Backfill sees", remedy)
    for source in mapping(variable, "valueFrom", here):
        if source not in SOURCES:
            yield Finding(
                f"{here}.valueFrom.{source}", "is not for a template", f"use one of {', '.join(sorted(SOURCES))}"
            )


def env_from_findings(sources: Iterable[Mapping[str, Any]], path: str, limits: Limits) -> Iterator[Finding]:
    """Yield each Secret or ConfigMap whose keys could become any variable; its prefix must limit them to allowed names."""
    for number, source in enumerate(sources):
        here = f"{path}[{number}]"
        for field in source:
            if field not in ("prefix", "secretRef", "configMapRef"):
                yield Finding(f"{here}.{field}", "is not for a template", "use secretRef or configMapRef")
        prefix = source.get("prefix")
        if not isinstance(prefix, str) or not prefix or _may_reach(prefix) or not _within(prefix, limits.env):
            pattern = f"{str(prefix)[:100]}*" if prefix else "a pattern such as AWS_*, and you its prefix,"
            remedy = "name each variable in env with valueFrom.secretKeyRef"
            message, value = "must be the prefix of allowed variables", "" if prefix is None else shown(prefix)
            yield Finding(f"{here}.prefix", message, remedy, value, permission("ALLOWED_ENV", pattern))


def _may_reach(prefix: str) -> bool:
    """Return whether a name with this prefix can be one of `NEVER`."""
    return any(prefix.startswith(pattern.rstrip("*")) or pattern.rstrip("*").startswith(prefix) for pattern in NEVER)


def _within(prefix: str, patterns: Iterable[str]) -> bool:
    return any(pattern.endswith("*") and prefix.startswith(pattern[:-1]) for pattern in patterns)
