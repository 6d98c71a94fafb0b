"""A Java process with Spark's classes and no session: nothing is analyzed or run."""

import shutil
from pathlib import Path

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from backfill_spark.jvm.class_archive import SPARK_JARS

FAST_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def java(*options: str, jars: Path | None = None) -> JavaGateway:
    """Start one, with the jars of a folder in addition to Spark's."""
    classpath = f"{SPARK_JARS}/*" if jars is None else f"{SPARK_JARS}/*:{jars}/*"
    port, token = launch_gateway(
        classpath=classpath, javaopts=[*FAST_START, *options], java_path=shutil.which("java"),
        jarpath=str(next(SPARK_JARS.glob("py4j-*.jar"))), die_on_exit=True, enable_auth=True,
    )  # fmt: skip
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))
