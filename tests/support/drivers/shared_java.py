"""A separate Python process whose session is in the Java of the tests: it starts in two seconds, and no second Spark is loaded.

    python -m support.drivers.shared_java FILE    one attempt at the job of a file, with the settings of the environment

The Java outlives the process. So a test about the death or the start of a Java needs a driver with a separate one.
"""

import os
import sys
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from backfill_api.load import load_backfill
from backfill_spark.driver.attempt import run_driver
from backfill_spark.jvm.gateway import know_packages, python_gateway
from backfill_spark.jvm.stop_signal import StopSignal
from backfill_spark.procedures.perform import KINDS, perform
from backfill_spark.settings import DriverSettings


def address_of(spark):
    """Return the variables by which another process finds the Java of a session."""
    java = python_gateway(spark).java_parameters
    return {"PYSPARK_GATEWAY_PORT": str(java.port), "PYSPARK_GATEWAY_SECRET": java.auth_token}


def own_session():
    """Return a session of this process in the Java that the environment names."""
    gateway = launch_gateway()
    java = gateway.jvm.org.apache.spark
    jsc = java.api.java.JavaSparkContext(java.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=jsc, conf=SparkConf(_jvm=gateway.jvm, _jconf=jsc.getConf()))
    spark = SparkSession(context).newSession()
    know_packages(spark)
    return spark


def attempt(file, settings, spark):
    """Make one attempt, print its end, and end the process with its exit code."""
    backfill = load_backfill(file.read_text())
    if settings.mode in KINDS:
        sys.exit(perform(backfill, settings=settings, stop=StopSignal(), spark=spark).exit_code)
    outcome = run_driver(backfill, settings=settings, spark=spark)
    print(outcome.outcome, outcome.reason, outcome.message, flush=True)
    sys.exit(outcome.exit_code)


if __name__ == "__main__":
    attempt(Path(sys.argv[1]), DriverSettings.from_environ(os.environ), own_session())
