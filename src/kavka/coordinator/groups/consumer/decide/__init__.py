"""Decides for one group of the newer protocol. Pure: no log, no futures, no clock.

group                                            a group as its records say it is
records                                          those records
heartbeat                                        what a heartbeat leads to
classic_members                                  the same for members that speak the classic protocol
current_assignment                               a member's next step towards its target
target_assignment, assignors, uniform_assignor   where all partitions are to go
migration                                        from one protocol to the other while members are at work
"""
