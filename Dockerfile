# Two images of one version: `operator` makes decisions, `spark` copies (driver and executors).
#
# The build fetches only Debian packages. build-tools/image_parts.sh first puts wheels and jars, all checked by their
# hashes, into build/image. `make image` does both; the wheels are for the Python of this Debian (3.11).
#
# The same inputs give the same files, if Debian's packages are reproducible: compiled Python contains no time, and logs are
# removed. Only the class archive contains addresses of the process that wrote it.

FROM debian:bookworm-slim AS python
RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*

FROM python AS java
# A slim Debian has no folder for manual pages, but Java's package writes one into it.
RUN mkdir -p /usr/share/man/man1 && apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jdk-headless binutils \
    && rm -rf /var/lib/apt/lists/*
# The modules that Spark, Hadoop and Delta use. Spark does not start without jdk.incubator.vector, and Delta not without java.compiler.
# Nothing draws, prints, plays or uses vectors of the incubator, so the libraries for that are removed, and most of Swing, fonts, images and
# sound. One class of each package stays, because jlink requires that. Java's own functions lose their symbols.
RUN jlink --strip-debug --no-header-files --no-man-pages --compress=2 --output /opt/java --add-modules \
java.base,java.compiler,java.desktop,java.instrument,java.logging,java.management,java.naming,java.net.http,java.rmi,java.scripting,\
java.security.jgss,java.sql,java.xml,jdk.crypto.ec,jdk.incubator.vector,jdk.jfr,jdk.management,jdk.naming.dns,jdk.net,\
jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs --exclude-resources 'regex:/java.desktop/\
(javax/swing/(plaf/(basic|metal|nimbus|synth)/|text/(html/)?)?|com/sun/(imageio/plugins/(jpeg|tiff)|java/swing/plaf/(gtk|motif)|media/sound)/|\
sun/(awt/X11|font|java2d/(loops|marlin|pipe)|print)/)(?!(BasicHTML|Blit|Box|BumpBuffer|CSS|FontSubstitution|GTKRegion|JPEG|LoopBasedPipe|\
MotifMenuBarUI|Region|SoftControl|State|SunMinMaxPage|TIFFColorConverter|Version|View|XEventDispatcher)\.)[A-Z].*' \
    && rm -rf /opt/java/legal && cd /opt/java/lib \
    && rm -f libawt*.so libfontmanager.so libjavajpeg.so libjawt.so libjsound.so libjsvml.so liblcms.so libmlib_image.so libsplashscreen.so \
    && strip --strip-unneeded server/libjvm.so \
    && /opt/java/bin/java -Xshare:dump -Xlog:disable

FROM python AS operator-build
COPY build/image/wheels /wheels
RUN python3 -m venv /opt/backfill \
    && /opt/backfill/bin/pip install --no-index --find-links /wheels --no-cache-dir --no-compile "backfill-operator[operator]" \
    && /opt/backfill/bin/pip uninstall -y pip setuptools
# Nine tenths of the client are classes for Kubernetes kinds, which the operator does not need: it reads and writes plain objects.
RUN cd /opt/backfill/lib/python3*/site-packages && rm -rf backfill_spark backfill_cli backfill_console backfill_kubectl backfill_page backfill \
    && find kubernetes/client/models kubernetes/aio/client/models kubernetes/client/api kubernetes/aio/client/api -name '*.py' \
        ! -name __init__.py ! -name v1_object_meta.py ! -name v1_owner_reference.py ! -name v1_managed_fields_entry.py -delete \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/backfill/lib \
    && /opt/backfill/bin/python -c "import backfill_operator.__main__, backfill_operator.trial"

FROM java AS spark-build
COPY build/image/wheels /wheels
RUN python3 -m venv /opt/backfill \
    && /opt/backfill/bin/pip install --no-index --find-links /wheels --no-cache-dir --no-compile "backfill-operator[spark]" \
    && /opt/backfill/bin/pip uninstall -y pip setuptools
# Remove the half of pyspark that SQL on Kubernetes does not need, and the packages of the other image. The jars have a list with a
# reason for each; a jar that it does not contain fails the build. The classes of the others lose names that only debuggers read.
COPY build/image/jars /tmp/jars
COPY build/image/tools /tmp/tools
RUN cd /opt/backfill/lib/python3*/site-packages && rm -rf backfill_operator backfill_kubectl && cd pyspark \
    && rm -rf ml mllib pandas examples data licenses jars/connect-repl sql/connect pipelines python/lib bin/*.cmd \
    && cp /tmp/jars/*.jar jars/ && python3 /tmp/tools/jars.py jars \
    && java -cp "$(echo jars/xbean-asm9-shaded-*.jar)" /tmp/tools/SlimJars.java jars
# Libraries are compiled modules only, without symbols. Our own packages keep their sources, for the lines in their tracebacks.
RUN cd /opt/backfill/lib/python3*/site-packages \
    && python3 -m compileall -q -b -x '^\./backfill' --invalidation-mode unchecked-hash . \
    && find . -name '*.py' ! -path './backfill*' -delete && find . -name '*.so' -exec strip --strip-unneeded {} + \
    && python3 -m compileall -q --invalidation-mode unchecked-hash backfill*/

FROM debian:bookworm-slim AS whole-base
COPY build/image/tools/slim.sh /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends python3 tini ca-certificates libnss-wrapper \
    && groupadd --gid 185 backfill && useradd --uid 185 --gid 185 --home-dir /tmp --no-create-home backfill \
    && mkdir /usr/share/backfill \
    && dpkg-query --show --showformat '${Package} ${Version} ${Architecture}\n' >/usr/share/backfill/debian.txt \
    && python3 -m compileall -q -b --invalidation-mode unchecked-hash /usr/lib/python3.11 \
    && find /usr/lib/python3* -name __pycache__ -prune -exec rm -r {} + && find /usr/lib/python3* -name '*.py' -delete \
    && sh /tmp/slim.sh && rm /tmp/slim.sh

# One layer: files that a separate layer removes stay in the layer before, and a node stores both.
FROM scratch AS base
COPY --from=whole-base / /
ENV PATH=/opt/backfill/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
LABEL org.opencontainers.image.licenses=Apache-2.0 org.opencontainers.image.vendor=backfill.dev

FROM base AS operator
COPY --from=operator-build /opt/backfill /opt/backfill
# The contents of the image: a Python package that is not locked fails the build. This step comes last; Debian's own list stays.
COPY build/image/tools /tools
RUN python3 /tools/sbom.py --name backfill-operator --lock /tools/image.txt --debian /usr/share/backfill/debian.txt \
        --site-packages /opt/backfill/lib/python3*/site-packages > /usr/share/backfill/sbom.cdx.json \
    && rm -r /tools
LABEL org.opencontainers.image.title=backfill-operator \
    org.opencontainers.image.description="Runs a Spark driver for every Backfill, sends it commands and writes its status."
USER 185:185
ENTRYPOINT ["/usr/bin/tini", "--"]
CMD ["python", "-m", "backfill_operator"]

FROM base AS spark
COPY --from=java /opt/java /opt/java
COPY --from=spark-build /opt/backfill /opt/backfill
COPY --chmod=755 spark_app/entrypoint.sh /opt/backfill/entrypoint.sh
COPY --chmod=644 spark_app/backfill_spark/jvm/log4j2-pod.properties /opt/backfill/log4j2-pod.properties
# The link is created here: copied from another stage, it would become a second copy of the folder.
RUN ln -s /opt/backfill/lib/python3*/site-packages/pyspark /opt/spark
ENV JAVA_HOME=/opt/java SPARK_HOME=/opt/spark PATH=/opt/backfill/bin:/opt/java/bin:/usr/local/bin:/usr/bin:/bin
# The archive is created here and not in an earlier stage: Java uses it only with unchanged files, including their times.
# During an image build, the machine's name may not resolve.
# Then Java checks that it accepts the archive with the class path of driver and executor: without it, all starts are slower.
RUN SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost python -m backfill_spark.driver.class_archive_training \
    && java -Xshare:on -XX:SharedArchiveFile=/opt/spark/jars/classes.jsa \
        -cp "/opt/spark/conf:$(echo /opt/spark/jars/slf4j-api-*.jar):/opt/spark/jars/*" -version
# The build fails if a class that users name in their settings does not load.
COPY build/image/tools /tools
RUN python /tools/configured_classes.py /opt/spark/jars \
    && python3 /tools/sbom.py --name backfill-spark --lock /tools/image.txt --debian /usr/share/backfill/debian.txt \
        --site-packages /opt/spark/.. --jars /opt/spark/jars > /usr/share/backfill/sbom.cdx.json \
    && rm -r /tools
# A cluster may choose any user, with group 0 and without a name: the build fails if Java does not start for it.
USER 61000:0
RUN mkdir /tmp/any && cd /tmp/any \
    && TMPDIR=/tmp/any SPARK_LOCAL_IP=127.0.0.1 SPARK_LOCAL_HOSTNAME=localhost /opt/backfill/entrypoint.sh python -c \
        "from backfill_spark.jvm.session import open_session; open_session(app_name='any', memory='512m').stop()" \
    && rm -rf /tmp/any
LABEL org.opencontainers.image.title=backfill-spark \
    org.opencontainers.image.description="Driver and executors, which fill a Delta table from a live source."
USER 185:185
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/backfill/entrypoint.sh"]
CMD ["driver", "--help"]
