#!/usr/bin/env bash
# What the image runs: `driver ARG…` one attempt, `executor` one executor for Spark's Kubernetes back end, else a command.
set -euo pipefail

# A cluster may choose any user, as OpenShift does. Hadoop ends Java where the user has no name, whatever variables say.
if ! id -un >/dev/null 2>&1; then
    NSS_WRAPPER_PASSWD=$(mktemp)
    { cat /etc/passwd && echo "backfill:x:$UID:$(id -g):backfill:/tmp:/usr/sbin/nologin"; } >"$NSS_WRAPPER_PASSWD"
    export NSS_WRAPPER_PASSWD NSS_WRAPPER_GROUP=/etc/group LD_PRELOAD=libnss_wrapper.so HOME=/tmp
fi

case "${1:-}" in
driver)
    shift
    exec python -m backfill_spark "$@"
    ;;
executor)
    # Spark hands Java's options over one by one, numbered.
    options=()
    for name in $(compgen -A variable SPARK_JAVA_OPT_ | sort -t _ -k 4 -n); do options+=("${!name}"); done
    # The class path to the letter as Spark's launcher makes the driver's, so that the driver's class archive serves here too.
    class_path="$SPARK_HOME/conf:$(echo "$SPARK_HOME"/jars/slf4j-api-*.jar):$SPARK_HOME/jars/*${SPARK_CLASSPATH:+:$SPARK_CLASSPATH}"
    if [ -f "$SPARK_HOME/jars/classes.jsa" ]; then options+=("-XX:SharedArchiveFile=$SPARK_HOME/jars/classes.jsa" "-Xlog:cds*=off"); fi
    exec java -Dlog4j2.configurationFile=file:/opt/backfill/log4j2-pod.properties "${options[@]}" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "$class_path" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec "$@"
    ;;
esac
