"""Pipelines: Spark Declarative Pipelines (SDP) with kavka's formats, run again and again, or as one long session.

    order.py          what a driver's process must do, on its command line
    spec.py           pipeline.yml: what SDP takes, and kavka's own key
    precheck.py       what is found before Spark starts: syntax, brokers, topics
    runner.py         starts Spark's driver as a process of its own, reports what it does, ends it
    driver.py         that process: one run, runs again and again, a check, or the long session
    triggered.py      a run of SDP: what is new since the last one, through all flows
    long_session.py   the same definitions as Structured Streaming queries that go on
    definitions.py    which flows and tables there are, and where each stands in which file
    late_flows.py     SDP hears of flows so that it knows what they read, in later runs too
    sql_definitions.py  the same out of SQL files
    catalog.py        tables from run to run
    emptying.py       a full refresh empties streaming tables with partitions, too
    passed_over.py    a checkpoint behind its table's files is refused: Spark would lose rows
    unplanned.py      what a kill left of a query's first plan, which Spark would refuse
    backfill.py       a flow reads what was before its beginning
    datasets.py       the topics and tables that flows read and write, by name
    journal.py        what happened in a run, a line for each
    progress.py       Spark's reports as rows in and out, lag and seconds for each flow
    event_log.py      where Spark's reports come from in a run of SDP
    monitor.py        how a pipeline stands, out of its events: metrics, and what somebody should know of
    alerts.py         a webhook is told of that, once, and when it is over
    lineage.py        which flow made what of what, told to OpenLineage
    exports.py        starts these where pipeline.yml asks for them
    problems.py       an exception as a sentence with flow, file and line
    spark_settings.py settings with which a session starts
    shipped.py        the pipelines that come with kavka, copied into a user's folder
    skew_plan.py, topology.py, lag_policy_sweep.py, fsck.py, replica_directories.py
                      what these pipelines need besides Spark
    examples/         pipelines to begin with: `kavka pipeline init --example NAME`

Spark does not run in the command's process, so a driver may die, be killed and be started again while the command goes
on and reports it. Between them is the journal, a file that only grows.
"""
