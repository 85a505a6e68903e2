"""What is unhealthy about a cluster. A check decides on a snapshot's values; it asks no broker.

checks      all checks, in one report
brokers     brokers answer, one is the controller, they keep up
disks       log directories work and have room
partitions  partitions have leaders, take writes, are replicated, and are led where they should be
topics      settings that will lose records or refuse writes when a broker dies
security    who reaches brokers in clear, certificates that end, lists that are old
groups      groups and transactions make progress
share_groups
            share groups get on, and what they give up has its dead letter
zookeeper   one leader, no queue, few watches and connections
findings    thresholds, and what a check has found so far
report      results by name, and the score that follows from them
"""
