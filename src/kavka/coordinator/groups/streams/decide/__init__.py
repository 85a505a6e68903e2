"""Decides for streams groups. Pure: no log, no futures, no clock.

tasks               what a task is, and sets of tasks: values
topology            what an application consists of, and which internal topics it needs; hash_order, in which order
                    Kafka goes over its parts
group               a group as its records say it is
records             those records: 17 and 19 to 23 of `__consumer_offsets`
sticky_assignor     which member runs which task; fair_queue, who has least to do
current_assignment  a member's next step towards its target
endpoints           which partitions each instance of the application serves
heartbeat           joining, staying and leaving
"""
