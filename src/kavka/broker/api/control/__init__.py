"""Between the controller and the brokers. Clients send none of these.

Decides only how messages are read and answered. Must not know when an order is stale or a change is allowed: that is
`broker.metadata.state_changes` on a broker, and `kavka.controller` at the controller.

    leader_and_isr, update_metadata, stop_replica    what the controller orders
    alter_partition, controlled_shutdown, allocate_producer_ids    what a broker asks the controller for
    ports                      what these need of the broker
"""
