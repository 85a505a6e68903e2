"""A shop that keeps its orders in a topic: the program under test. Nothing in it knows kavka."""

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaException, Producer

TOPIC = "orders"


class Shop:
    def __init__(self, bootstrap_servers: str) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})

    def place(self, order: str) -> None:
        """Returns when the order is stored. Raises KafkaException."""
        outcome = []
        self._producer.produce(TOPIC, order, on_delivery=lambda error, _: outcome.append(error))
        self._producer.flush(60)
        if outcome != [None]:
            raise KafkaException(outcome[0] if outcome else f"{order}: no answer in 60 s")

    def orders(self) -> Iterator[str]:
        """All orders, the oldest first."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": "report",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            consumer.subscribe([TOPIC])
            while (message := consumer.poll(60)) is not None:
                if message.error() is not None:  # The end of the topic: it has one partition.
                    return
                yield message.value().decode()
        finally:
            consumer.close()
