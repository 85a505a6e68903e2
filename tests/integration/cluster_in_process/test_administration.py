"""Administration of three brokers: features, settings of groups and subscriptions, metrics."""

from __future__ import annotations

from pathlib import Path

from kavka.broker.telemetry.broker_metrics import register
from kavka.client.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    FeatureUpdateKind,
    ResourceType,
)
from kavka.metrics import Gauge, Registry
from kavka.model import BrokerId
from kavka.zookeeper.port import CreateMode
from kavka.zookeeper.znode_paths import broker_path
from kavka.zookeeper.znodes import BrokerEndpoint, BrokerRegistration
from tests.integration.cluster_in_process.in_process_cluster import InProcessCluster
from tests.integration.cluster_in_process.test_replicated_topic import TOPIC, create, runs, write


def test_beside_a_broker_of_apache_kafka_no_feature_is_in_force(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        def levels() -> list[tuple[int, int]]:
            features = [cluster.broker(broker_id).features for broker_id in cluster.running]
            return [(each.transaction_version(), each.group_version()) for each in features]

        await cluster.until(lambda: levels() == [(2, 1)] * 3, "all know the levels")
        epochs = {cluster.broker(broker_id).features.finalized.epoch for broker_id in cluster.running}
        assert len(epochs) == 1
        endpoint = BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1)
        apache = BrokerRegistration(BrokerId(9), (endpoint,), 0)
        await cluster.session.create(broker_path(9), apache.encode(), mode=CreateMode.EPHEMERAL)
        await cluster.until(lambda: levels() == [(0, 0)] * 3, "the change")
        await cluster.session.delete(broker_path(9))
        await cluster.until(lambda: levels() == [(2, 1)] * 3, "the change")
        async with cluster.client() as client:
            refused = await Admin(client).update_features({"transaction.version": 1}, FeatureUpdateKind.SAFE_DOWNGRADE)
            assert not refused
        await cluster.until(lambda: levels() == [(1, 1)] * 3, "the change")

    runs(tmp_path, scenario)


def test_what_a_group_and_a_subscription_set_is_known_to_every_broker(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        group = ConfigResource(ResourceType.GROUP, "g")
        subscription = ConfigResource(ResourceType.CLIENT_METRICS, "s")
        async with cluster.client() as client:
            admin = Admin(client)
            failures = await admin.alter_configs(
                {
                    group: [ConfigChange("consumer.session.timeout.ms", "50000")],
                    subscription: [ConfigChange("interval.ms", "1000"), ConfigChange("metrics", "*")],
                }
            )
            assert not failures

            def known() -> bool:
                configs = [cluster.broker(broker_id).configs for broker_id in cluster.running]
                return all(
                    each.group("g") == {"consumer.session.timeout.ms": "50000"}
                    and each.client_metrics("s") == {"interval.ms": "1000", "metrics": "*"}
                    for each in configs
                )

            await cluster.until(known, "the change")
            await cluster.kill(3)
            await cluster.start(3)
            assert known()
            removal = [ConfigChange("consumer.session.timeout.ms", None, ConfigOperation.DELETE)]
            assert not await admin.alter_configs({group: removal})
            brokers = [cluster.broker(broker_id) for broker_id in cluster.running]
            await cluster.until(lambda: not any(broker.configs.named("groups") for broker in brokers), "the change")

    runs(tmp_path, scenario)


def test_metrics_tell_of_leaders_replicas_and_the_controller(tmp_path: Path) -> None:
    async def scenario(cluster: InProcessCluster) -> None:
        def total(group: str, kind: str, name: str, **tags: str) -> float:
            found = 0.0
            for broker_id in cluster.running:
                registry = Registry()
                register(cluster.broker(broker_id), registry)
                gauge = registry.get(group, kind, name, **tags)
                assert isinstance(gauge, Gauge)
                found += gauge.read()
            return found

        def of_controller(name: str) -> float:
            return total("kafka.controller", "KafkaController", name)

        def of_replicas(name: str) -> float:
            return total("kafka.server", "ReplicaManager", name)

        async with cluster.client() as client:
            await create(client)
            await cluster.wait_for_isr(TOPIC, 0, [1, 2, 3])
            await write(client, range(20))
        # The brokers' decisions, the first of which is that there is a topic, are kept in a topic of their own.
        partitions = 2
        await cluster.until(lambda: of_controller("GlobalPartitionCount") == partitions, "the topic of decisions")
        await cluster.until(lambda: of_replicas("LeaderCount") == partitions, "a leader for each")
        await cluster.until(lambda: of_replicas("PartitionCount") == 3 * partitions, "all replicas")
        await cluster.until(lambda: of_replicas("UnderReplicatedPartitions") == 0, "all are in sync")
        assert of_controller("ActiveControllerCount") == 1
        assert of_controller("ActiveBrokerCount") == 3
        assert of_controller("GlobalPartitionCount") == partitions
        await cluster.until(lambda: of_controller("OfflinePartitionsCount") == 0, "none is offline")
        await cluster.until(lambda: of_controller("PreferredReplicaImbalanceCount") == 0, "preferred leaders lead")
        assert total("kafka.server", "ReplicaFetcherManager", "FailedPartitionsCount", clientId="Replica") == 0
        # What brokers decide comes into its topic all the while.
        await cluster.until(
            lambda: total("kafka.server", "ReplicaFetcherManager", "MaxLag", clientId="Replica") == 0,
            "no follower lags",
        )
        assert total("kafka.log", "LogManager", "OfflineLogDirectoryCount") == 0
        assert total("kafka.log", "LogCleanerManager", "max-dirty-percent") == 0
        leader = await cluster.leader(TOPIC)
        await cluster.kill(leader)
        await cluster.until(lambda: of_controller("PreferredReplicaImbalanceCount") >= 1, "the change")
        await cluster.until(lambda: of_replicas("UnderReplicatedPartitions") == partitions, "the change")
        assert of_controller("ActiveControllerCount") == 1

    runs(tmp_path, scenario)
