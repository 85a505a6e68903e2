"""Failures: a failed check named by what is wrong, in the reader's language: "2 topics have a single replica".

Decides words only. `kavka health` has its own, with the default limits in them; here the limits are the console's, and
stand beside.

I1  Each check has one (tests/unit/console/test_health_text.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from jinja2 import pass_context

if TYPE_CHECKING:
    from jinja2.runtime import Context
    from markupsafe import Markup

    from kavka.console.look.i18n import Translator
    from kavka.observe.health.report import CheckResult

FAILURES: Final[Mapping[str, tuple[str, str]]] = {
    "reachable": ("The cluster does not answer", "The cluster does not answer"),
    "controller": ("The cluster has no controller", "The cluster has no controller"),
    "controller-changes": ("The controller changes too often", "The controller changes too often"),
    "brokers-alive": ("{n} broker with replicas is dead", "{n} brokers with replicas are dead"),
    "request-queue": ("{n} broker has a full request queue", "{n} brokers have full request queues"),
    "request-handlers": ("{n} broker has no idle request handler", "{n} brokers have no idle request handlers"),
    "network-processors": ("{n} broker has no idle network processor", "{n} brokers have no idle network processors"),
    "log-directories": ("{n} broker has a log directory offline", "{n} brokers have a log directory offline"),
    "disk-space": ("{n} broker is short of disk space", "{n} brokers are short of disk space"),
    "rebalances": ("{n} group rebalances too often", "{n} groups rebalance too often"),
    "stuck-groups": ("{n} group is stuck", "{n} groups are stuck"),
    "share-groups-still": (
        "A share group stands still at {n} record",
        "Share groups stand still at {n} records",
    ),
    "share-records-given-up": (
        "A share group gave up records of {n} partition",
        "Share groups gave up records of {n} partitions",
    ),
    "dead-letters": (
        "Dead letters are missing for {n} partition",
        "Dead letters are missing for {n} partitions",
    ),
    "hanging-transactions": ("{n} transaction hangs", "{n} transactions hang"),
    "offline-partitions": ("{n} partition has no leader", "{n} partitions have no leader"),
    "below-min-isr": ("{n} partition refuses acks=all", "{n} partitions refuse acks=all"),
    "under-replicated": ("{n} partition stays out of sync", "{n} partitions stay out of sync"),
    "last-replica": ("{n} partition is down to its last replica", "{n} partitions are down to their last replica"),
    "leader-imbalance": ("{n} broker leads too few of its partitions", "{n} brokers lead too few of their partitions"),
    "open-listeners": (
        "{n} broker is reached in clear by other machines",
        "{n} brokers are reached in clear by other machines",
    ),
    "open-passwords": ("{n} broker takes passwords in clear", "{n} brokers take passwords in clear"),
    "certificates-end": ("{n} certificate is about to end", "{n} certificates are about to end"),
    "certificates-end-soon": ("{n} certificate should be renewed", "{n} certificates should be renewed"),
    "acls-stale": ("{n} broker has old access control lists", "{n} brokers have old access control lists"),
    "single-replica": ("{n} topic has a single replica", "{n} topics have a single replica"),
    "min-isr-settings": (
        "{n} topic would refuse acks=all with one broker down",
        "{n} topics would refuse acks=all with one broker down",
    ),
    "unclean-elections": ("{n} topic allows unclean elections", "{n} topics allow unclean elections"),
    "zookeeper-leader": ("ZooKeeper has not exactly one leader", "ZooKeeper has not exactly one leader"),
    "zookeeper-outstanding": (
        "{n} ZooKeeper server has a queue of requests",
        "{n} ZooKeeper servers have a queue of requests",
    ),
    "zookeeper-watches": ("{n} ZooKeeper server has too many watches", "{n} ZooKeeper servers have too many watches"),
    "zookeeper-connections": (
        "{n} ZooKeeper server has too many connections",
        "{n} ZooKeeper servers have too many connections",
    ),
}
"""By the check's name: of one object, and of several."""


@pass_context
def failure(context: Context, result: CheckResult) -> Markup:
    """What is wrong, where this check failed."""
    translate: Translator = context["_"]
    one, many = FAILURES[result.check.name]
    return translate.several(one, many, result.failed)
