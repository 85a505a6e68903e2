"""What a Kafka cluster shows to whoever calls: looked at from outside, and judged. Works with Apache Kafka too.

Decides which doors are tried, and what of the answers is a finding. Changes nothing on the cluster it looks at.

    sightings     values: what was seen, and what could not be seen
    findings      sightings become findings: why it matters, and what mends it. Pure
    tls_hellos    TLS hellos and their answers, as bytes. Pure
    tls_suites    the numbers and names of TLS suites, and which of them are weak
    tls_look      versions, suites, certificates, whether clients are asked for one
    broker_look   mechanisms, what an anonymous client learns and may do, well-known passwords
    beside_look   ZooKeeper, and the address of metrics
    look          all of it, in bounded time
"""
