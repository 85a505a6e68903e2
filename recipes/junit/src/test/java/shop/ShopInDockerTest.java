package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.testcontainers.junit.jupiter.Container;
import org.testcontainers.junit.jupiter.Testcontainers;
import org.testcontainers.kafka.KafkaContainer;
import org.testcontainers.utility.DockerImageName;

/** With Testcontainers' own module for apache/kafka: only the image's name is another one. */
@Testcontainers(disabledWithoutDocker = true)
class ShopInDockerTest {
    private static final String IMAGE = System.getenv().getOrDefault("KAVKA_IMAGE", "kavka");

    @Container
    static final KafkaContainer KAFKA =
            new KafkaContainer(DockerImageName.parse(IMAGE).asCompatibleSubstituteFor("apache/kafka"));

    @Test
    void ordersComeBackInTheOrderInWhichTheyWerePlaced() throws Exception {
        try (var shop = new Shop(KAFKA.getBootstrapServers())) {
            shop.place("tea");
            shop.place("milk");
            assertEquals(List.of("tea", "milk"), shop.orders());
        }
    }
}
