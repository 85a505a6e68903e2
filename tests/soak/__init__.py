"""Soaks: hours of mixed load on three brokers with faults, and whether anything grows.

trend    the slope of a series with its noise, and whether it is more than what is allowed
load     clients of all kinds, on threads, until they are told to stop
run      the cluster, its faults, the samples and the verdict: `make soak`
"""
