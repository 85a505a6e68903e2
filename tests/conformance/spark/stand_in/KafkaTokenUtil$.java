package org.apache.spark.kafka010;

import java.util.Map;
import org.apache.spark.SparkConf;
import scala.Option;

/** The Scala object KafkaTokenUtil as far as the connector asks it: no cluster has a token, and none is ever renewed. */
public final class KafkaTokenUtil$ {
    public static final KafkaTokenUtil$ MODULE$ = new KafkaTokenUtil$();

    private KafkaTokenUtil$() {}

    public Option<Object> findMatchingTokenClusterConfig(SparkConf configuration, String bootstrapServers) {
        return Option.empty();
    }

    public boolean needTokenUpdate(Map<String, Object> settings, Option<?> tokenConfiguration) {
        return false;
    }
}
