"""A shop that keeps its orders in a topic: the program under test. Nothing in it knows kavka."""

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

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
        """All orders of the topic's one partition, the oldest first."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": "report",  # librdkafka wants one. No group is joined: the partition is named below.
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
            while (message := consumer.poll(60)) is not None:
                if message.error() is not None:  # The end of the partition.
                    return
                yield message.value().decode()
        finally:
            consumer.close()
