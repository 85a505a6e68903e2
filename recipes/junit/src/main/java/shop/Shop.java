package shop;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A shop that keeps its orders in a topic: the program under test. Nothing in it knows kavka. */
public final class Shop implements AutoCloseable {
    public static final String TOPIC = "orders";

    private final String bootstrapServers;
    private final KafkaProducer<String, String> producer;

    public Shop(String bootstrapServers) {
        this.bootstrapServers = bootstrapServers;
        // acks=all and idempotence are the producer's defaults.
        producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrapServers), new StringSerializer(), new StringSerializer());
    }

    /** Returns when the order is stored. */
    public void place(String order) throws ExecutionException, InterruptedException {
        producer.send(new ProducerRecord<>(TOPIC, order)).get();
    }

    /** All orders of the topic's one partition, the oldest first. */
    public List<String> orders() {
        var partition = new TopicPartition(TOPIC, 0);
        var orders = new ArrayList<String>();
        try (var consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", bootstrapServers), new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            while (consumer.position(partition) < end) {
                consumer.poll(Duration.ofSeconds(1)).forEach(record -> orders.add(record.value()));
            }
        }
        return orders;
    }

    @Override
    public void close() {
        producer.close();
    }
}
