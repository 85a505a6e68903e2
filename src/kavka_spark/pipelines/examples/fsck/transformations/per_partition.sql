CREATE MATERIALIZED VIEW per_partition AS
SELECT topic, partition, severity, kind, count(*) AS findings, collect_set(broker) AS brokers
FROM findings
GROUP BY topic, partition, severity, kind;
