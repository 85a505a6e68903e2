"""The fixture kavka_cluster comes with kavka: three brokers for each test, without Docker and without a JVM."""

from shop import Shop


def test_orders_come_back_in_the_order_in_which_they_were_placed(kavka_cluster):
    kavka_cluster.create_topic("orders")
    shop = Shop(kavka_cluster.bootstrap_servers)

    shop.place("tea")
    shop.place("milk")

    assert list(shop.orders()) == ["tea", "milk"]


def test_no_order_is_lost_or_doubled_when_the_leader_dies(kavka_cluster):
    kavka_cluster.create_topic("orders", settings={"min.insync.replicas": 2})
    shop = Shop(kavka_cluster.bootstrap_servers)

    for number in range(10):
        if number == 5:
            kavka_cluster.kill(kavka_cluster.leader("orders", 0))
        shop.place(f"order {number}")

    assert list(shop.orders()) == [f"order {number}" for number in range(10)]
