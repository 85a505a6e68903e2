const { startKavka } = require("./kavka");
const { Shop, TOPIC } = require("./shop");

jest.setTimeout(120_000);

let cluster, shop;

beforeAll(async () => {
  cluster = await startKavka();
  shop = new Shop(cluster.brokers);
  await shop.open();
});

afterAll(async () => {
  await shop?.close();
  await cluster?.stop();
});

test("no order is lost or doubled when the leader dies", async () => {
  const admin = shop.kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: 1, replicationFactor: 3 }], waitForLeaders: true });
  const orders = Array.from({ length: 10 }, (_, number) => `order ${number}`);

  for (const order of orders) {
    if (order === "order 5") {
      // A first group makes __consumer_offsets, with three replicas: that needs all three brokers.
      expect(await shop.orders()).toEqual(orders.slice(0, 5));
      const { topics } = await admin.fetchTopicMetadata({ topics: [TOPIC] });
      cluster.kill(topics[0].partitions[0].leader);
    }
    await shop.place(order);
  }
  await admin.disconnect();

  expect(await shop.orders()).toEqual(orders);
});
