"""What if: questions about clusters that are answered without one, on drawn workloads or recorded traces.

lag_policy     a run: what a lag policy does to a leader's partitions
lag_workload   what producers write, and what slows followers down
lag_trace      what a leader saw, as a file; lag_flight: the same from flight recordings
lag_outcome    a run in figures
lag_advice     which policy, with which thresholds, and why
lag_report     pages with tables and drawings
isr_history    what another policy would have done to a real cluster
quorum_vs_isr  f + 1 in-sync replicas beside a majority of 2f + 1; quorum_report: rows, sentences, a page
plots          pages with drawings
"""
