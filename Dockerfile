# Two images of one version: `operator` decides, `spark` copies (driver and executors).
#
# Nothing is fetched here but Debian packages: build-tools/image_parts.sh puts wheels and jars, all checked by
# their hashes, into build/image first. `make image` does both; wheels are for the Python of this Debian (3.11).

FROM debian:bookworm-slim AS java
# A slim Debian has no folder for manual pages, and Java's package wants to put one there.
RUN mkdir -p /usr/share/man/man1 && apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jdk-headless binutils \
    && rm -rf /var/lib/apt/lists/*
# What Spark, Hadoop and Delta use; without jdk.incubator.vector Spark does not start, without java.compiler Delta does not.
RUN jlink --strip-debug --no-header-files --no-man-pages --compress=2 --output /opt/java --add-modules \
java.base,java.compiler,java.desktop,java.instrument,java.logging,java.management,java.naming,java.net.http,java.rmi,java.scripting,\
java.security.jgss,java.sql,java.xml,jdk.crypto.ec,jdk.incubator.vector,jdk.jfr,jdk.management,jdk.naming.dns,jdk.net,\
jdk.security.auth,jdk.unsupported,jdk.zipfs \
    && /opt/java/bin/java -Xshare:dump -Xlog:disable

FROM debian:bookworm-slim AS python
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*
COPY build/image/wheels /wheels

FROM python AS operator-build
RUN python3 -m venv /opt/backfill \
    && /opt/backfill/bin/pip install --no-index --find-links /wheels --no-cache-dir "backfill-operator[operator]" \
    && /opt/backfill/bin/pip uninstall -y pip setuptools

FROM python AS spark-build
RUN python3 -m venv /opt/backfill \
    && /opt/backfill/bin/pip install --no-index --find-links /wheels --no-cache-dir "backfill-operator[spark]" \
    && /opt/backfill/bin/pip uninstall -y pip setuptools
# What SQL on Kubernetes does without: half of pyspark.
RUN cd /opt/backfill/lib/python3*/site-packages/pyspark \
    && rm -rf ml mllib pandas examples data licenses jars/connect-repl \
    && cd jars && rm -f rocksdbjni* spark-connect* hive-* spark-hive* datanucleus-* derby* spark-mllib* spark-graphx* breeze* \
        spire* algebra* lapack* blas* arpack* spark-yarn* spark-repl* scala-compiler* jline* libthrift* HikariCP* ST4*
COPY build/image/jars /tmp/jars
RUN cp /tmp/jars/*.jar /opt/backfill/lib/python3*/site-packages/pyspark/jars/

FROM debian:bookworm-slim AS base
RUN apt-get update && apt-get install -y --no-install-recommends python3 tini ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 185 backfill && useradd --uid 185 --gid 185 --home-dir /tmp --no-create-home backfill
ENV PATH=/opt/backfill/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 185:185

FROM base AS operator
COPY --from=operator-build /opt/backfill /opt/backfill
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["python", "-m", "backfill_operator"]

FROM base AS spark
USER root
# Spark's scripts want ps.
RUN apt-get update && apt-get install -y --no-install-recommends procps && rm -rf /var/lib/apt/lists/*
COPY --from=java /opt/java /opt/java
COPY --from=spark-build /opt/backfill /opt/backfill
COPY --chmod=755 spark_app/entrypoint.sh /opt/backfill/entrypoint.sh
COPY --chmod=644 spark_app/backfill_spark/jvm/log4j2.properties /opt/backfill/log4j2.properties
# A link, made here: copied from another stage it would be the whole folder once more.
RUN ln -s /opt/backfill/lib/python3*/site-packages/pyspark /opt/spark
ENV JAVA_HOME=/opt/java SPARK_HOME=/opt/spark PATH=/opt/backfill/bin:/opt/java/bin:/usr/local/bin:/usr/bin:/bin
# Here, not in a stage before: Java uses the archive only of the very files that it was made of, down to their times.
# While an image is built its machine's name may lead nowhere.
RUN SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost python -m backfill_spark.driver.class_archive_training
USER 185:185
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/backfill/entrypoint.sh"]
CMD ["driver", "--help"]
