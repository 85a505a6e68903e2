package org.apache.spark.kafka010;

import java.util.ArrayList;
import java.util.List;
import scala.Tuple2;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The Scala object KafkaRedactionUtil: settings as they may be logged. */
public final class KafkaRedactionUtil$ {
    public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

    private KafkaRedactionUtil$() {}

    public Seq<Tuple2<String, Object>> redactParams(Seq<Tuple2<String, Object>> settings) {
        List<Tuple2<String, Object>> shown = new ArrayList<>();
        for (Tuple2<String, Object> setting : CollectionConverters.asJava(settings)) {
            String name = setting._1();
            boolean secret = name.contains("password") || name.equals("sasl.jaas.config");
            shown.add(secret ? new Tuple2<>(name, "(hidden)") : setting);
        }
        return CollectionConverters.asScala(shown).toList();
    }
}
