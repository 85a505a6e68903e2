"""Which rights a query needs, for a login that lacks one: brokers say what they refuse, and not what would do.

Decides the advice to each refusal. It must not know what the query does.
"""

from __future__ import annotations

from typing import Final

from kavka.errors import ErrorCode, KavkaError, RequestError
from kavka_spark.errors import MissingRightError

_TOPIC: Final = "a source needs Read and Describe on its topics, a sink Write and Describe"
_ADVICE: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: (
        f"{_TOPIC}, and exactlyOnce also Read and DescribeConfigs on the topic of its markers"
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "kavka.group.id needs Read on the group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "exactlyOnce needs Write and Describe on the transactional ids that begin with kavka-spark-"
    ),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: (
        f"{_TOPIC}; brokers before Kafka 2.8 want IdempotentWrite on the cluster, too"
    ),
}


def refusal_in(failure: BaseException | None) -> RequestError | None:
    """The broker's refusal that is behind a failure; None if no right is missing."""
    while failure is not None:
        if isinstance(failure, RequestError) and failure.code in _ADVICE:
            return failure
        failure = failure.__cause__
    return None


def with_advice(failure: KavkaError) -> KavkaError:
    """The failure, or where a right is missing one that says which rights such a query needs."""
    refused = refusal_in(failure)
    if refused is None:
        return failure
    return MissingRightError(f"{failure}. The login lacks a right: {_ADVICE[refused.code]}")
