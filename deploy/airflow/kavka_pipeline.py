"""An Airflow DAG for one pipeline: check it, and take what is new through all its flows, every hour.

Put this file into Airflow's folder of DAGs, and name the pipeline and the program below. The workers need
`pip install ".[spark]"` in a checkout of kavka, and Java. A run that fails, or is killed and tried again,
loses and doubles nothing.

`kavka pipeline backfill` has a DAG of its own: trigger it by hand with {"flow": ..., "from": ..., "to": ...}.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG, Param

PIPELINE = "/srv/pipelines/orders"
KAVKA = "/opt/kavka/bin/kavka"
TRIES = {"retries": 2, "retry_delay": timedelta(minutes=5)}

with DAG(
    dag_id="kavka_pipeline_orders",
    schedule="@hourly",
    start_date=datetime(2026, 1, 1),
    catchup=False,  # A run takes all that is new: hours that were missed are in it.
    max_active_runs=1,  # One driver at a time works on a storage; a second one is refused.
    default_args=TRIES,
):
    check = BashOperator(task_id="check", bash_command=f"{KAVKA} pipeline check --quiet {PIPELINE}")
    run = BashOperator(task_id="run", bash_command=f"{KAVKA} pipeline run --quiet {PIPELINE}")
    check >> run

with DAG(
    dag_id="kavka_pipeline_orders_backfill",
    schedule=None,
    start_date=datetime(2026, 1, 1),
    max_active_runs=1,
    params={
        "flow": Param("orders", type="string", pattern="^[A-Za-z_][A-Za-z0-9_]*$"),
        "from": Param("earliest", type="string", pattern="^[A-Za-z0-9:.+-]+$"),
        "to": Param("2026-01-01T00:00:00", type="string", pattern="^[0-9T:.Z+-]+$"),
    },
):
    BashOperator(
        task_id="backfill",
        bash_command=(
            f"{KAVKA} pipeline backfill --quiet {PIPELINE} "
            '"{{ params.flow }}" --from "{{ params["from"] }}" --to "{{ params.to }}"'
        ),
    )
