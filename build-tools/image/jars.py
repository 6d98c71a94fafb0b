"""Reduces the jars of the Spark image to those of `jars.toml`, during the image build.

    python3 jars.py /opt/…/pyspark/jars [MACHINE]

It runs with any Python from 3.11 and needs no packages, because it is copied into the build. A jar that the list does not contain
fails the build, so a new version of Spark adds nothing unseen. So does a class that names a package which the list calls unnamed.
The same jars give the same output.
"""

import platform
import re
import sys
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_suffix(".toml")
JAR = re.compile(
    r"(?P<name>.+)-\d+\.[^-]*(?:-(?:\d+|m\d+|GA|jre|jdk8|core|shaded-protobuf))?(?:-(?P<platform>[a-z]+-[a-z0-9_]+))?\.jar"
)
"""Name, version and platform of a jar: `netty-tcnative-boringssl-static-2.0.76.Final-linux-x86_64.jar`."""

NATIVE = (".so", ".dll", ".dylib", ".jnilib", ".a")
SERVICES = "META-INF/services/"


class JarListError(Exception):
    """The list and the folder do not fit; the message names each jar."""


@dataclass(frozen=True)
class JarList:
    """The content of `jars.toml`."""

    keep: frozenset[str]
    drop: frozenset[str]
    without: dict[str, tuple[str, ...]]
    """Path prefixes that are left out, by the name of the jar."""

    unnamed: dict[str, tuple[str, ...]]
    """Path prefixes that are left out because no other entry names them, by the name of the jar."""

    everywhere: frozenset[str]
    """Entries that are left out of every jar."""

    natives: dict[str, dict[str, str]]
    """Path prefix of the libraries in machine code, by the name of the jar and the machine."""


def read(path: Path = LIST) -> JarList:
    """Return the list.

    Raises:
        JarListError: a table has no reason, or a jar is in two tables.
    """
    content: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    tables = {f"{kind}.{name}": table for kind in ("keep", "drop") for name, table in content[kind].items()}
    problems = [f"{name} has no reason" for name, table in tables.items() if not table.get("reason")]
    problems += [
        f"{kind}.{name} has no reason"
        for kind in ("trim", "unnamed")
        for name, table in content[kind].items()
        if not table.get("reason")
    ]
    names = [jar for table in tables.values() for jar in table["jars"]]
    problems += [f"{jar} is named twice" for jar in sorted({jar for jar in names if names.count(jar) > 1})]
    if problems:
        raise JarListError(f"{path.name}: {', '.join(problems)}")
    return JarList(
        frozenset(jar for table in content["keep"].values() for jar in table["jars"]),
        frozenset(jar for table in content["drop"].values() for jar in table["jars"]),
        {name: tuple(table["without"]) for name, table in content["trim"].items()},
        {name: tuple(table["without"]) for name, table in content["unnamed"].items()},
        frozenset(content["everywhere"]["without"]),
        content["natives"],
    )


def name_and_platform(file: str) -> tuple[str, str]:
    """Return the name of a jar without its version, and the platform of a jar for one platform; otherwise an empty text.

    Raises:
        JarListError: the name has no version.
    """
    found = JAR.fullmatch(file)
    if found is None:
        raise JarListError(f"{file}: its name has no version")
    return found["name"], found["platform"] or ""


def removed(files: list[str], jars: JarList, machine: str) -> list[str]:
    """Return the files that the image does not need: dropped jars, and jars for other machines.

    Args:
        files: Names of all jars.
        jars: The list.
        machine: Name of the image's machine, such as `x86_64`.

    Raises:
        JarListError: a jar is not in the list, or the list has a jar that is missing.
    """
    names = {file: name_and_platform(file) for file in files}
    unknown = sorted(file for file, (name, _) in names.items() if name not in jars.keep | jars.drop)
    missing = sorted(jars.keep - {name for name, _ in names.values()})
    if unknown or missing:
        said = [f"{file} is not in {LIST.name}: add it to a table with a reason" for file in unknown]
        raise JarListError(
            "; ".join(said + [f"{name} is in {LIST.name}, and there is no such jar" for name in missing])
        )
    here = ("", f"linux-{machine}", f"linux-{machine.replace('aarch64', 'aarch_64')}")
    return [file for file, (name, other) in names.items() if name in jars.drop or other not in here]


def left_out(entries: list[str], name: str, jars: JarList, machine: str) -> set[str]:
    """Return the entries of a kept jar that are left out.

    Raises:
        JarListError: a path of the list has no entry, so the jar has another content than the list expects.
    """
    gone = {*entries} & jars.everywhere
    for prefix in (*jars.without.get(name, ()), *jars.unnamed.get(name, ())):
        matching = {entry for entry in entries if entry.startswith(prefix)}
        if not matching:
            raise JarListError(f"{LIST.name}: a table of {name} names {prefix}, which the jar does not contain")
        gone |= matching
    if (places := jars.natives.get(name)) is not None:
        here = places.get(machine)
        if here is None or not any(entry.startswith(here) for entry in entries):
            raise JarListError(f"{LIST.name}: natives.{name} has no folder of {machine} that the jar contains")
        gone |= {entry for entry in entries if entry.endswith(NATIVE) and not entry.startswith(here)}
    return gone


def naming(jar: Path, gone: set[str], unnamed: set[str]) -> list[str]:
    """Return the entries of a jar that stay and name a package of `unnamed`, as a path or with dots."""
    names = re.compile("|".join(sorted(prefix.replace("/", "[/.]") for prefix in unnamed)).encode())
    with zipfile.ZipFile(jar) as content:
        return [entry for entry in content.namelist() if entry not in gone and names.search(content.read(entry))]


def rewrite(jar: Path, gone: set[str]) -> None:
    """Write a jar again without some entries; lists of services lose the classes that are gone. Folders stay, for programs that list them."""
    classes = {entry.removesuffix(".class").replace("/", ".") for entry in gone if entry.endswith(".class")}
    written = jar.with_suffix(".new")
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(written, "w") as new:
        for entry in old.infolist():
            if entry.filename in gone:
                continue
            content = old.read(entry)
            if entry.filename.startswith(SERVICES):
                lines = content.decode().splitlines()
                content = "".join(f"{line}\n" for line in lines if line.strip() not in classes).encode()
            made = zipfile.ZipInfo(entry.filename, entry.date_time)
            new.writestr(made, content, zipfile.ZIP_STORED if entry.is_dir() else zipfile.ZIP_DEFLATED, 9)
    written.replace(jar)


def reduce(folder: Path, machine: str) -> None:
    """Remove and rewrite the jars of a folder.

    Raises:
        JarListError: the list does not fit the folder; nothing was changed.
    """
    jars, files = read(), sorted(path.name for path in folder.glob("*.jar"))
    useless = removed(files, jars, machine)
    unnamed = {prefix for prefixes in jars.unnamed.values() for prefix in prefixes}
    changes, named = {}, []
    for file in sorted({*files} - {*useless}):
        with zipfile.ZipFile(folder / file) as jar:
            gone = left_out(jar.namelist(), name_and_platform(file)[0], jars, machine)
        if gone:
            changes[file] = gone
        named += [f"{file} {entry}" for entry in naming(folder / file, gone, unnamed)]
    if named:
        raise JarListError(f"{LIST.name} has a package in `unnamed` that these entries name: {', '.join(named)}")
    for file in useless:
        (folder / file).unlink()
    for file, gone in changes.items():
        rewrite(folder / file, gone)


if __name__ == "__main__":
    try:
        reduce(Path(sys.argv[1]), sys.argv[2] if sys.argv[2:] else platform.machine())
    except JarListError as error:
        sys.exit(f"jars: {error}")
