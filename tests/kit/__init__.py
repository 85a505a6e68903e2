"""What tests of many rooms share: brokers, clusters and peers as processes, clients, browsers, networks to be cut.

Servers   kavka_process (one `kavka up`), process_cluster (brokers and ZooKeeper as processes, to be broken),
          three_brokers (three of either kind), patience (brokers of `kavka.testing` on a busy machine),
          zookeeper_ensemble (Apache ZooKeeper), console_process, connect_workers, schema_registry_server
Clients   broker_client (any request, right or wrong), console_client, asgi_client, browser (a real one),
          topic_contents, topic_everywhere, committed_records
Spark     spark_cluster, spark_job, sink_tasks_process, bad_day, pipeline_project, official_connector, topic_filler
Disk      memory_directory (what needs no real disk does not wait for one)
Faults    process_faults (a disk that fails or is slow, a wall clock that steps, for one process)
Time      virtual_time (a clock that moves on instead of waiting)
Networks  switched_network (in the process), network_lab (network namespaces),
          bad_cable (packets that are lost, doubled, late)
Groups    classic_group (its rules alone), group_case, group_surroundings

Must not know what a test wants to show. Apache Kafka itself is run by `tests.apache_kafka`.
"""
