// A shop that keeps its orders in a topic: the program under test. Nothing in it knows kavka.
const { Kafka, logLevel } = require("kafkajs");

const TOPIC = "orders";

class Shop {
  constructor(brokers) {
    this.kafka = new Kafka({ clientId: "shop", brokers, logLevel: logLevel.NOTHING });
    this.producer = this.kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  }

  async open() {
    await this.producer.connect();
  }

  /** Resolves when the order is stored. */
  async place(order) {
    await this.producer.send({ topic: TOPIC, acks: -1, messages: [{ value: order }] });
  }

  /** All orders of the topic's one partition, the oldest first. */
  async orders() {
    const admin = this.kafka.admin();
    await admin.connect();
    const [{ high }] = await admin.fetchTopicOffsets(TOPIC);
    await admin.disconnect();
    const consumer = this.kafka.consumer({ groupId: `report-${Date.now()}` });
    await consumer.connect();
    await consumer.subscribe({ topic: TOPIC, fromBeginning: true });
    const orders = [];
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer
        .run({
          eachMessage: async ({ message }) => {
            orders.push(message.value.toString());
            if (BigInt(message.offset) + 1n >= BigInt(high)) resolve();
          },
        })
        .catch(reject);
    });
    await consumer.disconnect();
    return orders;
  }

  async close() {
    await this.producer.disconnect();
  }
}

module.exports = { Shop, TOPIC };
