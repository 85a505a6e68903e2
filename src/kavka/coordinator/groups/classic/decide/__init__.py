"""Decides for one classic group. Pure: no log, no futures, no clock.

group              the automaton: who is a member, when a generation begins and ends, what each request is answered with
membership         the states of a group, what members ask and are answered, what a group keeps of each: values
protocol_choice    the assignor that all support and most want
consumer_protocol  the bytes that consumers exchange through their group
"""
