"""Controlled shutdown: a broker that is about to stop asks the controller to move its leaders to others.

Decides how often that is tried, and that it is not where no other broker lives any more: when all of a cluster stop at
once, the last one has nobody to wait for. Must not know who leads afterwards: the controller decides that.

Source: Kafka's KafkaServer.controlledShutdown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from kavka.broker.metadata.controller_link import ControllerLink
from kavka.config.broker import BrokerConfig
from kavka.errors import ConnectionFailed, ErrorCode
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.protocol.api_keys import ApiKey

logger = Logger(__name__)

CONTROLLED_SHUTDOWN_VERSION: Final = 3
LOOK_S: Final = 0.1
"""How often it is looked, between two attempts, whether anybody is left who could lead."""


async def leave_cluster(
    controller: ControllerLink,
    config: BrokerConfig,
    broker_id: BrokerId,
    broker_epoch: Callable[[], int],
    has_others: Callable[[], bool],
) -> None:
    """Returns when nothing is left that could be moved, when no other broker lives (`has_others`), or after
    controlled.shutdown.max.retries more attempts."""
    backoff_s, attempts = config.controlled_shutdown_retry_backoff_ms / 1000, config.controlled_shutdown_max_retries + 1
    for attempt in range(1, attempts + 1):
        why = await _ask(controller, config, broker_id, broker_epoch())
        if why is None:
            return
        is_last = attempt == attempts
        then = {} if is_last else {"next_step": f"waits {backoff_s:g} s for a replica that could, and asks again"}
        logger.warning("controlled shutdown not complete", attempt=attempt, attempts=attempts, why=why, **then)
        if not is_last and not await _pause(backoff_s, has_others):
            logger.info("controlled shutdown ended", why="no other broker is left that could lead")
            return
    logger.warning(
        "controlled shutdown given up", next_step="the controller elects other leaders when this broker is gone"
    )


async def _pause(seconds: float, has_others: Callable[[], bool]) -> bool:
    """Waits so long, and not on where no other broker is left: False then."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while has_others():
        left_s = deadline - loop.time()
        if left_s <= 0:
            return True
        await asyncio.sleep(min(left_s, LOOK_S))
    return False


async def _ask(controller: ControllerLink, config: BrokerConfig, broker_id: BrokerId, epoch: int) -> str | None:
    """None if no leader is left on this broker that could be moved. Otherwise why not."""
    from kavka.protocol.messages.controlled_shutdown_request import ControlledShutdownRequest
    from kavka.protocol.messages.controlled_shutdown_response import ControlledShutdownResponse

    try:
        answer = await controller.send(
            ApiKey.CONTROLLED_SHUTDOWN,
            CONTROLLED_SHUTDOWN_VERSION,
            ControlledShutdownRequest(broker_id=broker_id, broker_epoch=epoch),
            ControlledShutdownResponse,
            timeout_ms=config.controller_socket_timeout_ms,
        )
    except ConnectionFailed as failure:
        return str(failure)
    if answer.error_code != ErrorCode.NONE:
        return ErrorCode.answered(answer.error_code).name
    if answer.remaining_partitions:
        return f"partitions without another replica that could lead: {len(answer.remaining_partitions)}"
    return None
