package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class ShopTest {
    @RegisterExtension
    static final Kavka KAFKA = new Kavka();

    @Test
    void noOrderIsLostOrDoubledWhenTheLeaderDies() throws Exception {
        List<String> orders = IntStream.range(0, 10).mapToObj(number -> "order " + number).toList();
        try (var admin = Admin.create(Map.of("bootstrap.servers", KAFKA.bootstrapServers()));
                var shop = new Shop(KAFKA.bootstrapServers())) {
            admin.createTopics(List.of(new NewTopic(Shop.TOPIC, 1, (short) 3))).all().get();
            for (String order : orders) {
                if (order.equals("order 5")) {
                    var topic = admin.describeTopics(List.of(Shop.TOPIC)).allTopicNames().get().get(Shop.TOPIC);
                    KAFKA.kill(topic.partitions().get(0).leader().id());
                }
                shop.place(order);
            }
            assertEquals(orders, shop.orders());
        }
    }
}
