"""Loads each class of `configured_classes.toml` in Java, during the image build. A class that does not load fails the build.

    python configured_classes.py /opt/…/pyspark/jars [MORE JARS…]

It needs Java and py4j, as the image has them.
"""

import sys
import tomllib
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

LIST = Path(__file__).with_suffix(".toml")


def names(path: Path = LIST) -> list[str]:
    """Return all names of the list."""
    return [name for table in tomllib.loads(path.read_text(encoding="utf-8")).values() for name in table["names"]]


def missing(classes: list[str], folders: list[Path]) -> list[str]:
    """Return an error for each class that a Java with these folders of jars cannot load, or whose methods need a missing class."""
    [py4j] = [jar for folder in folders for jar in folder.glob("py4j-*.jar")]
    class_path = ":".join(f"{folder}/*" for folder in folders)
    port, token = launch_gateway(classpath=class_path, jarpath=str(py4j), die_on_exit=True, enable_auth=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    errors = []
    try:
        for name in classes:
            try:
                loaded = gateway.jvm.java.lang.Class.forName(name)
                loaded.getMethods()
                loaded.getConstructors()
            except Py4JJavaError as error:
                errors.append(f"{name}: {error.java_exception.toString()}")
    finally:
        gateway.shutdown()
    return errors


if __name__ == "__main__":
    problems = missing(names(), [Path(folder) for folder in sys.argv[1:]])
    if problems:
        sys.exit("\n".join(["configured_classes: users may name these classes, and they do not load:", *problems]))
