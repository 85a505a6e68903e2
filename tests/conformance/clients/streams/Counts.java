import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * A Kafka Streams application with exactly_once_v2: how often did each value come so far?
 *
 * <p>Counts HOST:PORT,... APPLICATION STATE_DIRECTORY INPUT OUTPUT REPLICATION_FACTOR [GROUP_PROTOCOL] counts until it is
 * ended. With GROUP_PROTOCOL streams the broker divides the tasks. It has a repartition topic (the value becomes the key), a store with a changelog, and writes every new count to OUTPUT. Prints
 * the states of the client, what a thread died of, and what is copied and restored of the store: "standby copied counts-0 OFFSET",
 * "standby promoted counts-0 OFFSET", "restore from counts-0 OFFSET".
 */
public final class Counts {
    public static void main(String[] arguments) throws InterruptedException {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(arguments[2]).toString());
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, arguments[5]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "200");
        settings.put("statestore.cache.max.bytes", "0"); // every count comes out, not only the last before a commit
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        if (arguments.length > 6) {
            settings.put("group.protocol", arguments[6]); // 3.9 has no constant for it
        } else {
            settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "6000"); // how long a killed one is missed
            settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), "1000");
        }

        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[3], Consumed.with(Serdes.String(), Serdes.String()))
            .selectKey((key, value) -> value)
            .groupByKey(Grouped.with("by-value", Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long, KeyValueStore<Bytes, byte[]>>as("counts"))
            .toStream()
            .to(arguments[4], Produced.with(Serdes.String(), Serdes.Long()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            System.out.println(now);
            if (now == KafkaStreams.State.ERROR || now == KafkaStreams.State.NOT_RUNNING) {
                ended.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(problem -> {
            System.out.println(problem + " caused by " + problem.getCause());
            Arrays.stream(problem.getStackTrace()).limit(10).forEach(System.out::println);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStandbyUpdateListener(new StandbyUpdateListener() {
            @Override
            public void onUpdateStart(TopicPartition changelog, String store, long from) {
                say("standby from", store, changelog, from);
            }

            @Override
            public void onBatchLoaded(TopicPartition changelog, String store, TaskId task, long last, long size, long end) {
                say("standby copied", store, changelog, last);
            }

            @Override
            public void onUpdateSuspended(TopicPartition changelog, String store, long offset, long end, SuspendReason why) {
                say("standby " + why.name().toLowerCase(), store, changelog, offset);
            }
        });
        streams.setGlobalStateRestoreListener(new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition changelog, String store, long from, long end) {
                say("restore from", store, changelog, from);
            }

            @Override
            public void onBatchRestored(TopicPartition changelog, String store, long last, long count) {
            }

            @Override
            public void onRestoreEnd(TopicPartition changelog, String store, long count) {
                say("restored", store, changelog, count);
            }
        });
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
        ended.await();
        System.exit(1);
    }

    private static void say(String what, String store, TopicPartition changelog, long number) {
        System.out.println(what + " " + store + "-" + changelog.partition() + " " + number);
    }
}
