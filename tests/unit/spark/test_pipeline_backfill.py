"""Which flows of a pipeline a backfill is for, and which it is refused for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql.connect.plan import DataSource as Source
from pyspark.sql.connect.plan import Deduplicate, Join, LogicalPlan

from kavka_spark.expectations import QUARANTINE_OF
from kavka_spark.pipelines.backfill import BackfillRefused, FlowBackfill
from kavka_spark.pipelines.order import Order, decode_order, encode_order


def _source(format_name: str = "kavka", *, is_streaming: bool = True) -> Source:
    return Source(format=format_name, options={"subscribe": "orders"}, is_streaming=is_streaming)


def _frame(plan: LogicalPlan) -> Any:
    return SimpleNamespace(_plan=plan, _session=SimpleNamespace(client=None))


def _flow(name: str, function: str = "", of: str = "") -> Flow:
    def query() -> Any:
        raise NotImplementedError

    query.__name__ = function or name
    if of:
        setattr(query, QUARANTINE_OF, of)
    place = SourceCodeLocation("orders.py", 1)
    return Flow(name=name, target=name, spark_conf={}, source_code_location=place, func=query)


def test_the_flow_and_its_quarantine_get_the_order_and_no_other_flow() -> None:
    order = FlowBackfill("orders", "earliest", "1700000000000")
    sources = {name: _source() for name in ("orders_quarantine", "orders", "others")}
    order.take(_flow("orders_quarantine", "quarantined", of="orders"), _frame(sources["orders_quarantine"]))
    order.take(_flow("spark_catalog.default.orders", "orders"), _frame(sources["orders"]))
    order.take(_flow("others"), _frame(sources["others"]))
    order.check({})
    wanted = {"subscribe": "orders", "kavka.backfill.from": "earliest", "kavka.backfill.to": "1700000000000"}
    assert sources["orders"]._options == sources["orders_quarantine"]._options == wanted
    assert sources["others"]._options == {"subscribe": "orders"}


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (_source("kafka"), 'reads kafka: a backfill is for a flow that reads one stream of format "kavka"'),
        (_source(is_streaming=False), "reads no stream"),
        (Join(_source(), _source(), None, "cross"), "reads kavka, kavka"),
        (
            Deduplicate(_source(), all_columns_as_keys=True),
            "has a step Deduplicate: to it, older records would be late",
        ),
    ],
)
def test_what_cannot_be_filled_in_is_refused(plan: LogicalPlan, said: str) -> None:
    with pytest.raises(BackfillRefused, match=said):
        FlowBackfill("orders", "earliest").take(_flow("orders"), _frame(plan))


def test_a_flow_is_not_filled_in_without_its_quarantine() -> None:
    order = FlowBackfill("renamed", "earliest")
    order.take(_flow("orders_quarantine", "quarantined", of="orders"), _frame(_source()))
    order.take(_flow("renamed", "orders"), _frame(_source()))
    with pytest.raises(BackfillRefused, match="has a quarantine under the name orders"):
        order.check({})
    with pytest.raises(BackfillRefused, match="the function orders defines the flow renamed"):
        FlowBackfill("orders", "earliest").take(_flow("renamed", "orders"), _frame(_source()))
    order = FlowBackfill("ordres", "earliest")
    order.take(_flow("orders"), _frame(_source()))
    with pytest.raises(BackfillRefused, match="there is no flow ordres in Python, where the flows are orders"):
        order.check({})


def test_a_flow_into_a_table_of_changes_is_refused_before_its_checkpoint_holds_the_range() -> None:
    order = FlowBackfill("orders", "earliest")
    order.take(_flow("orders"), _frame(_source()))
    order.check({"orders": {"path": "/t"}, "others": {"mergekeys": "id"}})
    with pytest.raises(BackfillRefused, match="an older change would replace a newer one"):
        order.check({"orders": {"mergekeys": "id"}})


def test_the_order_goes_to_the_driver_as_it_is() -> None:
    for order in (Order("p", "j", "run"), Order("p", "j", "run", backfill=("orders", "earliest", ""))):
        assert decode_order(encode_order(order)) == order
