#!/bin/sh
# What Kubernetes' scheduler of Spark starts in an executor's pod, with the variables that it sets; any other words are a
# command, such as kavka. Source: the entry point of Spark's own image (kubernetes/dockerfiles/spark).
set -eu
if [ "${1:-}" = executor ]; then
  set -- "${JAVA_HOME:-/usr}/bin/java"
  for variable in $(env | sed -n 's/^\(SPARK_JAVA_OPT_[0-9]*\)=.*/\1/p' | sort -t_ -k4n); do
    eval "set -- \"\$@\" \"\${$variable}\""
  done
  set -- "$@" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
fi
exec tini -s -- "$@"
