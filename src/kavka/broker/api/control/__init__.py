"""Between the controller and the brokers. Clients send none of these.

leader_and_isr, update_metadata, stop_replica    what the controller orders
alter_partition, controlled_shutdown, allocate_producer_ids    what a broker asks the controller for
"""
