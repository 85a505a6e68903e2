"""What if: questions about clusters that are answered without one, on drawn workloads or recorded traces.

lag_policy     what a lag policy does to a leader's partitions; its workloads, outcomes, advice and pages are lag_*
isr_history    what another policy would have said to a real cluster
quorum_vs_isr  f + 1 in-sync replicas beside a majority of 2f + 1
plots          pages with drawings
"""
