"""The broker: joins replication, coordinators and controller, and answers Kafka's protocol (api/, one file per key)."""
