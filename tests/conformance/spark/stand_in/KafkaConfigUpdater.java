package org.apache.spark.kafka010;

import java.util.HashMap;
import java.util.Map;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Stands in for the class of this name in Spark's module of Kafka's delegation tokens, which the official connector calls
 * and which cannot be had everywhere: it knows no tokens, and sets what it is told. The connector itself stays as it is.
 */
public final class KafkaConfigUpdater {
    private final Map<String, Object> settings;

    public KafkaConfigUpdater(String module, scala.collection.immutable.Map<String, Object> given) {
        settings = new HashMap<>(CollectionConverters.asJava(given));
    }

    public KafkaConfigUpdater set(String name, Object value) {
        settings.put(name, value);
        return this;
    }

    public KafkaConfigUpdater setIfUnset(String name, Object value) {
        settings.putIfAbsent(name, value);
        return this;
    }

    /** Without tokens there is nothing to add: who has a password gives it as a setting. */
    public KafkaConfigUpdater setAuthenticationConfigIfNeeded() {
        return this;
    }

    public KafkaConfigUpdater setAuthenticationConfigIfNeeded(Option<?> tokenConfiguration) {
        return this;
    }

    public Map<String, Object> build() {
        return settings;
    }
}
