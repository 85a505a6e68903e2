"""AlterConfigs and IncrementalAlterConfigs: a resource's settings and a request to change them -> its new settings.

Decides what the new overrides are, and which requests are refused with which code and words. Must not know znodes,
requests' messages, or whether a topic exists (answer UNKNOWN_TOPIC_OR_PARTITION, "The topic 'x' does not exist.").

I1. A refusal (`RequestError`) changes nothing; an accepted change is whole.
I2. What is accepted can be made into a TopicConfig or a BrokerConfig.

Where kavka differs from 3.9 on purpose: an unknown name that is appended to, and an operation that does not exist, are
INVALID_CONFIG and INVALID_REQUEST (Kafka: UNKNOWN_SERVER_ERROR, without a word); the lists of metrics subscriptions can
be appended to and subtracted from (Kafka 4.3: INVALID_CONFIG, "its type is not LIST", though it is); spaces around an
element that is appended or subtracted are no part of it (Kafka keeps both, with and without); refusals of a value that
cannot be reconfigured come without the name of a Java class in front; passwords cannot be set at run time; a change
that would have no effect here and has one in Kafka, or only after a restart, or is not supported (`effect.py`), is
refused with the reason. That comes last: what Kafka refuses is refused in Kafka's words. Only what changes is judged
so: the settings of a cluster in which Apache Kafka's brokers run as well stay as they are.

Source: Kafka's ZkAdminManager, ConfigAdminManager, DynamicBrokerConfig of 3.9, asked of a running broker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kavka.config.broker import BrokerConfig, setting_named
from kavka.config.broker_settings import DynamicOnlySettings
from kavka.config.effect import IDLE_IN_KAFKA_TOO, Effect, refuse_unsupported, standing, start_only, without_effect
from kavka.config.group import (
    BOUNDED,
    DEAD_LETTERS_FROM,
    MAX_PUSH_INTERVAL_MS,
    MIN_PUSH_INTERVAL_MS,
    ClientMetricsSettings,
    GroupSettings,
    bounds,
    parse_match,
)
from kavka.config.setting import AnySetting, InvalidValue, Mode, Type, parse_list
from kavka.config.topic import TieredStorageDisabled, TopicSettings, validate_overrides
from kavka.errors import ConfigError, ErrorCode, RequestError


class Operation(IntEnum):
    """What IncrementalAlterConfigs does with one setting, with Kafka's codes."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    """One entry of IncrementalAlterConfigs; `operation` is the code as it came."""

    name: str
    operation: int
    value: str | None


_DEAD_LETTERS: Final = "errors.deadletterqueue."
_THREADS: Final = ("num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads")
_NEEDS_LISTENER: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Settings that change at run time only as listener.name.L.setting."""
_CLUSTER_LEVEL_OF_LISTENER: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")


def alter_topic(topic: str, entries: Sequence[tuple[str, str | None]], broker: BrokerConfig) -> dict[str, str]:
    """The overrides of a topic after AlterConfigs, which replaces all of them. Raises RequestError."""
    _refuse_without_topic(topic)
    overrides = _replacement(entries)
    _validate_topic(topic, overrides, broker)
    return overrides


def alter_topic_incrementally(
    topic: str, current: Mapping[str, str], changes: Sequence[Change], broker: BrokerConfig
) -> dict[str, str]:
    """The overrides of a topic after IncrementalAlterConfigs, which keeps what is not named. Raises RequestError."""
    refuse_duplicates(change.name for change in changes)
    refuse_nulls(changes)
    _refuse_without_topic(topic)
    overrides = _applied(current, changes, TopicSettings.rows)
    _validate_topic(topic, overrides, broker)
    return overrides


def alter_broker(
    entries: Sequence[tuple[str, str | None]], current: Mapping[str, str], broker: BrokerConfig, *, per_broker: bool
) -> dict[str, str]:
    """What is set at run time after AlterConfigs, for this broker or as the default of all. Raises RequestError.

    `current` is what is set there now; `broker` what is in force here.
    """
    texts = _replacement(entries)
    _validate_broker(texts, current, broker, per_broker=per_broker)
    return texts


def alter_broker_incrementally(
    changes: Sequence[Change], current: Mapping[str, str], broker: BrokerConfig, *, per_broker: bool
) -> dict[str, str]:
    """What is set at run time after IncrementalAlterConfigs, as `alter_broker`. Raises RequestError."""
    refuse_duplicates(change.name for change in changes)
    refuse_nulls(changes)
    texts = _applied(current, changes, {**broker.rows, **DynamicOnlySettings.rows})
    _validate_broker(texts, current, broker, per_broker=per_broker)
    return texts


def usable_at_run_time(texts: Mapping[str, str], *, per_broker: bool) -> tuple[dict[str, str], dict[str, str]]:
    """What of `texts`, found as set at run time, can be obeyed; and why each of the others cannot.

    They may be of a broker of another kind or of an earlier version. What has no effect is among the former: it does
    no harm.
    """
    usable: dict[str, str] = {}
    refused: dict[str, str] = {}
    for name, text in texts.items():
        try:
            _validate_each({name: text}, per_broker=per_broker)
            if (row := setting_named(name)) is not None:
                refuse_unsupported(row, row.parse(text))
            if (why := start_only(name)) is not None:
                raise ConfigError(why)
        except (RequestError, ConfigError) as refusal:
            refused[name] = str(refusal)
        else:
            usable[name] = text
    return usable, refused


def alter_group(
    group_id: str,
    entries: Sequence[tuple[str, str | None]],
    current: Mapping[str, str],
    broker: BrokerConfig,
    *,
    share_version: int = DEAD_LETTERS_FROM,
) -> dict[str, str]:
    """What a group sets after AlterConfigs, which replaces all of it; else as `alter_group_incrementally`."""
    texts = _replacement(entries)
    _refuse_without_group(group_id)
    _validate_group(texts, current, broker, share_version)
    return texts


def alter_group_incrementally(
    group_id: str,
    current: Mapping[str, str],
    changes: Sequence[Change],
    broker: BrokerConfig,
    *,
    share_version: int = DEAD_LETTERS_FROM,
) -> dict[str, str]:
    """What a group sets after IncrementalAlterConfigs, where the feature share.version is at this level. Raises
    RequestError."""
    refuse_duplicates(change.name for change in changes)
    refuse_nulls(changes)
    _refuse_without_group(group_id)
    texts = _applied(current, changes, GroupSettings.rows)
    _validate_group(texts, current, broker, share_version)
    return texts


def _refuse_without_group(group_id: str) -> None:
    if not group_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def _validate_group(
    texts: Mapping[str, str], current: Mapping[str, str], broker: BrokerConfig, share_version: int
) -> None:
    try:
        for name, text in texts.items():
            row = GroupSettings.rows.get(name)
            if row is None:
                raise ConfigError(f"Unknown group config name: {name}")
            value = row.parse(text)
            found = standing(name, GroupSettings)
            if found.effect is Effect.NONE and current.get(name) != text:
                raise ConfigError(f"{name} would have no effect: {found.why}")
            if name.startswith(_DEAD_LETTERS) and share_version < DEAD_LETTERS_FROM and current.get(name) != text:
                raise ConfigError(
                    f"{name} would have no effect: the feature share.version is {share_version}, and dead letters take "
                    f"{DEAD_LETTERS_FROM}"
                )
            if name in BOUNDED:
                least, most = bounds(broker, name)
                if not least <= value <= most:
                    raise InvalidValue(name, value, f"Value must be at least {least} and at most {most}")
        _refuse_short_sessions(texts, broker)
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _refuse_short_sessions(texts: Mapping[str, str], broker: BrokerConfig) -> None:
    """A session must be longer than the time between heartbeats, by the group's settings and else by the broker's.
    Raises ConfigError."""
    for kind in ("consumer", "share", "streams"):
        session, interval = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session not in texts and interval not in texts:
            continue  # The broker's own settings are not this group's mistake.
        session_ms = int(texts.get(session, getattr(broker, f"group_{kind}_session_timeout_ms")))
        if session_ms <= int(texts.get(interval, getattr(broker, f"group_{kind}_heartbeat_interval_ms"))):
            raise ConfigError(f"{session} must be greater than {interval}")


def alter_client_metrics(subscription: str, entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """What a subscription to clients' metrics says after AlterConfigs, which replaces all of it. Raises
    RequestError."""
    texts = _replacement(entries)
    _refuse_without_subscription(subscription)
    _validate_client_metrics(texts)
    return texts


def alter_client_metrics_incrementally(
    subscription: str, current: Mapping[str, str], changes: Sequence[Change]
) -> dict[str, str]:
    """What a subscription to clients' metrics says after IncrementalAlterConfigs. Raises RequestError."""
    refuse_duplicates(change.name for change in changes)
    refuse_nulls(changes)
    _refuse_without_subscription(subscription)
    texts = _applied(current, changes, ClientMetricsSettings.rows)
    _validate_client_metrics(texts)
    return texts


def _refuse_without_subscription(subscription: str) -> None:
    if not subscription:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")


def _validate_client_metrics(texts: Mapping[str, str]) -> None:
    try:
        for name, text in texts.items():
            row = ClientMetricsSettings.rows.get(name)
            if row is None:
                raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
            row.parse(text)
        if "match" in texts:
            parse_match(texts["match"])
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from error
    interval_ms = texts.get("interval.ms")
    if interval_ms is not None and not MIN_PUSH_INTERVAL_MS <= int(interval_ms) <= MAX_PUSH_INTERVAL_MS:
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {MIN_PUSH_INTERVAL_MS} and "
            f"{MAX_PUSH_INTERVAL_MS} (1 hour)",
        )


def is_this_broker(resource: str, broker_id: int, *, describing: bool = False) -> bool:
    """Whether a broker resource's name means this broker (else "", the default of all). Raises RequestError."""
    if not resource:
        return False
    if not re.fullmatch(r"[+-]?[0-9]+", resource):
        what = "Broker" if describing else "Node"
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{what} id must be an integer, but it is: {resource}")
    if int(resource) != broker_id:
        expected = f"{broker_id} or empty string" if describing else f"{broker_id}"
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {expected}, but received {resource}"
        )
    return True


def _refuse_without_topic(topic: str) -> None:
    if not topic:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")


def refuse_duplicates(names: Iterable[str]) -> None:
    """Raises RequestError where a change names a setting twice."""
    seen = list(names)
    if len(set(seen)) < len(seen):
        raise RequestError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def refuse_nulls(changes: Sequence[Change]) -> None:
    """Raises RequestError where a setting is to be null."""
    nulls = [change.name for change in changes if change.value is None and change.operation != Operation.DELETE]
    if nulls:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def _replacement(entries: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    refuse_duplicates(name for name, _ in entries)
    refuse_nulls([Change(name, Operation.SET, value) for name, value in entries])
    return {name: value for name, value in entries if value is not None}


def _applied(current: Mapping[str, str], changes: Sequence[Change], rows: Mapping[str, AnySetting]) -> dict[str, str]:
    texts = dict(current)
    for change in changes:
        value = change.value or ""
        match change.operation:
            case Operation.SET:
                texts[change.name] = value
            case Operation.DELETE:
                texts.pop(change.name, None)
            case Operation.APPEND:
                elements = _elements(change, "append", texts, rows)
                added = [element for element in parse_list(value) if element not in elements]
                texts[change.name] = ",".join([*elements, *added])
            case Operation.SUBTRACT:
                elements = _elements(change, "subtract", texts, rows)
                for element in parse_list(value):
                    if element in elements:
                        elements.remove(element)
                texts[change.name] = ",".join(elements)
            case unknown:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST, f"Unknown operation {unknown} for config key: {change.name}"
                )
    return texts


def _elements(change: Change, what: str, texts: Mapping[str, str], rows: Mapping[str, AnySetting]) -> list[str]:
    """The elements of a list that is to be changed: those set on this resource, else those of Kafka's default."""
    row = rows.get(change.name)
    if row is None:
        raise RequestError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {change.name}")
    if row.kind is not Type.LIST:
        raise RequestError(
            ErrorCode.INVALID_CONFIG, f"Config value {what} is not allowed for config key: {change.name}"
        )
    text = texts.get(change.name)
    return list((row.default or ()) if text is None else parse_list(text))


def _validate_topic(topic: str, overrides: Mapping[str, str], broker: BrokerConfig) -> None:
    try:
        validate_overrides(overrides, broker)
    except (InvalidValue, TieredStorageDisabled) as error:
        resource = f"ConfigResource(type=TOPIC, name='{topic}')"
        raise RequestError(
            ErrorCode.INVALID_CONFIG, f"Invalid config value for resource {resource}: {error}"
        ) from error
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _validate_broker(
    texts: Mapping[str, str], current: Mapping[str, str], broker: BrokerConfig, *, per_broker: bool
) -> None:
    changed = {name: text for name, text in texts.items() if current.get(name) != text}
    _validate_each(changed, per_broker=per_broker)
    usable, _ = usable_at_run_time(texts, per_broker=per_broker)
    asked = {**usable, **{name: text for name, text in changed.items() if start_only(name) is None}}
    try:
        after = broker.with_dynamic(dynamic=asked) if per_broker else broker.with_dynamic(dynamic_default=asked)
        _check_reconfiguration(broker, after)
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, str(error)) from error
    _refuse_without_effect(changed, broker, per_broker=per_broker)


def _validate_each(texts: Mapping[str, str], *, per_broker: bool) -> None:
    """Refuses settings that may not be set at run time, or not to these values, whatever else is set."""
    _refuse_names(
        [name for name in texts if (row := BrokerConfig.rows.get(name)) and row.read_only],
        "Cannot update these configs dynamically",
    )
    _refuse_names(
        [name for name in texts if name in _NEEDS_LISTENER],
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    if not per_broker:
        _refuse_names(
            [name for name in texts if _belongs_to_one_broker(name)],
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    _refuse_names(
        [name for name in texts if (row := setting_named(name)) and row.sensitive],
        "Passwords cannot be set at run time, put them into the broker's file",
    )
    try:
        for name, text in texts.items():
            if row := setting_named(name):
                row.parse(text)
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, str(error)) from error


def _refuse_without_effect(names: Iterable[str], broker: BrokerConfig, *, per_broker: bool) -> None:
    """Refuses changes after which nothing would be different. Other brokers may have other listeners."""
    sentences = []
    for name in names:
        if name in IDLE_IN_KAFKA_TOO:
            continue
        why = broker.why_without_effect(name) if per_broker else without_effect(name)
        if why is not None:
            sentences.append(f"{name} would have no effect: {why}")
        elif (why := start_only(name)) is not None:
            sentences.append(
                f"{name} cannot change while the broker runs: {why} Set it in the broker's file, and restart the "
                "broker."
            )
    if sentences:
        raise RequestError(ErrorCode.INVALID_REQUEST, " ".join(sentences))


def _refuse_names(names: Sequence[str], why: str) -> None:
    if names:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{why}: Set({', '.join(names)})")


def _belongs_to_one_broker(name: str) -> bool:
    row = setting_named(name)
    if name.startswith("listener.name."):
        return row is None or row.name not in _CLUSTER_LEVEL_OF_LISTENER
    return row is not None and row.mode is Mode.PER_BROKER and row.name not in DynamicOnlySettings.rows


def _check_reconfiguration(before: BrokerConfig, after: BrokerConfig) -> None:
    """Refuses steps that a running broker does not take, though a start with the same values would be fine."""
    for name in _THREADS:
        attribute = before.rows[name].attribute
        _check_threads(name, getattr(before, attribute), getattr(after, attribute))
    was, cleaners = before.log_cleaner_threads, after.log_cleaner_threads
    if cleaners != was:
        if cleaners < 1:
            raise ConfigError("Log cleaner threads must be at least 1")
        if cleaners < was // 2:
            raise ConfigError(f"Log cleaner threads cannot be reduced to less than half the current value {was}")
        if cleaners > was * 2:
            raise ConfigError(f"Log cleaner threads cannot be increased to more than double the current value {was}")
    for listener in (endpoint.listener for endpoint in after.listener_endpoints):
        was, bound = (each.max_connections_of_listeners.get(listener, each.max_connections) for each in (before, after))
        if bound != was and bound <= 0:
            raise ConfigError(f"Invalid max.connections {bound}")
        was, bound = (
            each.max_connection_creation_rate_of_listeners.get(listener, each.max_connection_creation_rate)
            for each in (before, after)
        )
        if bound != was and bound <= 0:
            raise ConfigError(f"Invalid max.connection.creation.rate {bound}")
    if after.metric_reporters != before.metric_reporters:
        raise ConfigError("Validation of dynamic config update of Set(metric.reporters) failed: no such class")


def _check_threads(name: str, was: int, threads: int) -> None:
    problem = f"Dynamic thread count update validation failed for {name}={threads}"
    if threads == was:
        return
    if threads <= 0:
        raise ConfigError(f"{problem}, value should be at least 1")
    if threads < was // 2:
        raise ConfigError(f"{problem}, value should be at least half the current value {was}")
    if threads > was * 2:
        raise ConfigError(f"{problem}, value should not be greater than double the current value {was}")
