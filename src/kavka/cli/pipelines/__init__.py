"""Pipelines on Spark, and Spark itself.

pipeline         run, check, describe; pipeline_report: what a run shows
spark            Spark on this machine; queries that were killed
"""
