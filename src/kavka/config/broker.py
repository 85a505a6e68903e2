"""BrokerConfig: the settings of one broker as it runs, typed, with Kafka's derived values.

Decides which of several texts for a setting counts (set at run time for this broker, set at run time for all brokers,
the file, the default), how settings combine (ms over minutes over hours), and which combinations a broker must not
start with. Must not know files, command lines or sockets.

I1. An instance never changes; a change at run time makes a new one (`with_dynamic`).
I2. Every value of an instance is in range, alone and together with the others.
I3. A name that no table knows is kept in `unknown` and otherwise ignored, as in Kafka.
I4. No instance asks for what is not supported (`effect.py`), wherever its values come from.

Source: Kafka's KafkaConfig and DynamicBrokerConfig.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Never, Self

from kavka.config.broker_settings import HOUR_MS, MIB, MINUTE_MS, BrokerSettings, DynamicOnlySettings
from kavka.config.effect import KERBEROS, OF_OAUTHBEARER, OF_TOKEN_LOGIN, refuse_unsupported, without_effect
from kavka.config.listeners import (
    TLS_PROTOCOLS,
    Endpoint,
    check_ports,
    in_clear_beyond,
    parse_endpoints,
    parse_protocol_map,
)
from kavka.config.setting import LONG_MAX, READ_ONLY, AnySetting, InvalidValue
from kavka.errors import ConfigError

DEFAULT_ZOOKEEPER_REQUESTS_IN_FLIGHT = 1_000
_SAME_PURPOSE = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Settings that stand for one another; the first that is set counts."""
_SYNONYMS = {name: group for group in _SAME_PURPOSE for name in group if name != "log.flush.scheduler.interval.ms"}
ALL_DIRECTORIES = "*"
"""What cordoned.log.dirs says for all of log.dirs."""
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
"""By their numbers in a batch's attributes."""
_HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")
"""What the name or address of a host consists of, to Kafka."""
_OF_LISTENER = r"listener\.name\.[^.]*\.(.*)"
_OF_MECHANISM = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    *OF_OAUTHBEARER,
    *OF_TOKEN_LOGIN,
)
"""Settings that may be given for one SASL mechanism of one listener, as listener.name.L.mechanism.setting."""


def synonyms(name: str) -> tuple[str, ...]:
    """The settings of a broker that can decide the value of `name`, the strongest first; `name` is among them."""
    if name in _SYNONYMS:
        return _SYNONYMS[name]
    if name.startswith("listener.name.") and (match := re.fullmatch(_OF_LISTENER, name)):
        base = match[1]
        return name, next((setting for setting in _OF_MECHANISM if base.endswith(setting)), base)
    return (name,)


def setting_named(name: str) -> AnySetting | None:
    """The row with the type of `name`: its own, or that of the setting which it overrides for one listener."""
    row = BrokerSettings.rows.get(name) or DynamicOnlySettings.rows.get(name)
    return row or BrokerSettings.rows.get(synonyms(name)[-1])


class BrokerConfig(BrokerSettings):
    """The settings of one broker: an attribute for each, and the values that follow from several of them.

    Create it with `from_properties`. `static`, `dynamic` and `dynamic_default` are the texts that it was made from.
    """

    static: Mapping[str, str]
    """Texts of the file and the command line, by setting."""
    dynamic: Mapping[str, str]
    """Texts that were set at run time for this broker."""
    dynamic_default: Mapping[str, str]
    """Texts that were set at run time as the default of all brokers."""
    unknown: tuple[str, ...]
    """Names in `static` that are no settings, in the file's order."""

    def __init__(self) -> None:
        self.__dict__.update(static={}, dynamic={}, dynamic_default={}, unknown=())

    def __setattr__(self, name: str, value: object) -> Never:
        raise AttributeError(f"a BrokerConfig does not change: {name}")

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, str],
        *,
        dynamic: Mapping[str, str] | None = None,
        dynamic_default: Mapping[str, str] | None = None,
    ) -> Self:
        """The configuration that `properties` describes, with what was set at run time laid over it.

        Raises ConfigError (its subclass InvalidValue for a single value) with the setting's name, value and range.
        """
        config = cls()
        static = _with_both_ids(properties)
        values = config.__dict__
        values.update(static=static, dynamic=dict(dynamic or {}), dynamic_default=dict(dynamic_default or {}))
        values["unknown"] = tuple(n for n in properties if n not in cls.rows and not n.startswith("listener.name."))
        for name, text in static.items():
            if row := setting_named(name):
                value = row.parse(text)
                refuse_unsupported(row, value)
                if row.name == name:
                    values[row.attribute] = value
        for texts in (config.dynamic_default, config.dynamic):
            for name, text in texts.items():
                row = cls.rows.get(name)
                if row and row.mode is not READ_ONLY:
                    value = values[row.attribute] = row.parse(text)
                    refuse_unsupported(row, value)
        config._check()
        return config

    def with_dynamic(
        self, *, dynamic: Mapping[str, str] | None = None, dynamic_default: Mapping[str, str] | None = None
    ) -> Self:
        """This configuration with other texts set at run time; None keeps those it has. Raises ConfigError."""
        return self.from_properties(
            self.static,
            dynamic=self.dynamic if dynamic is None else dynamic,
            dynamic_default=self.dynamic_default if dynamic_default is None else dynamic_default,
        )

    def with_broker_id(self, broker_id: int) -> Self:
        """This configuration with a broker id that its settings do not name: a generated one, or the one on the disk.

        Generated ids are above reserved.broker.max.id, where the settings may not name one."""
        own = {name: text for name, text in self.static.items() if name not in ("broker.id", "node.id")}
        if broker_id > self.reserved_broker_max_id:
            own["broker.id.generation.enable"] = "false"
        return self.from_properties(
            {**own, "broker.id": str(broker_id)}, dynamic=self.dynamic, dynamic_default=self.dynamic_default
        )

    @cached_property
    def without_effect(self) -> tuple[str, ...]:
        """Settings of the file and the command line that have no effect here, in their order."""
        return tuple(name for name in self.static if self.why_without_effect(name) is not None)

    def why_without_effect(self, name: str) -> str | None:
        """Why this broker's setting `name` has no effect; None if it has one, and for an unknown name."""
        why, given = without_effect(name), name
        if why is not None:
            return why
        endpoints = self.listener_endpoints
        if name.startswith("listener.name."):
            listener = name.split(".")[2]
            endpoints = tuple(each for each in endpoints if each.listener.lower() == listener)
            if not endpoints:
                return f"This broker has no listener {listener}."
            name = synonyms(name)[-1]
        if name in OF_OAUTHBEARER and not self._enables("OAUTHBEARER"):
            return "It governs OAUTHBEARER, and no listener of this broker enables it."
        if name in KERBEROS and not self._enables("GSSAPI"):
            return "It governs GSSAPI, and no listener of this broker enables it."
        if name == "ssl.client.auth" and given == name and all(each.security_protocol != "SSL" for each in endpoints):
            return (
                "It governs listeners with SSL, and this broker has none. For one with SASL_SSL, set "
                "listener.name.L.ssl.client.auth."
            )
        if name in OF_TOKEN_LOGIN and not any(
            "OAUTHBEARER" in text
            for each, text in self.static.items()
            if each.endswith("sasl.mechanism.inter.broker.protocol")
        ):
            return "It governs how brokers get tokens for themselves, and they do not log in on each other with tokens."
        if name.startswith("ssl.") and not any(each.security_protocol in TLS_PROTOCOLS for each in endpoints):
            return "It governs listeners with TLS (SSL), and this broker has none that it would apply to."
        return None

    def _enables(self, mechanism: str) -> bool:
        """Whether a listener may have this mechanism."""
        named = [text for name, text in self.static.items() if name.endswith("sasl.enabled.mechanisms")]
        return any(mechanism in text for text in named) or mechanism in self.sasl_enabled_mechanisms

    # Values that follow from several settings.

    @cached_property
    def log_directories(self) -> tuple[str, ...]:
        """The directories that hold logs, as absolute paths: log.dirs, else log.dir."""
        text = self.log_dir if self.log_dirs is None else self.log_dirs
        return _absolute(text.split(","))

    @cached_property
    def cordoned_log_directories(self) -> tuple[str, ...]:
        """The directories that get no new partitions, as absolute paths; all of them for "*"."""
        if ALL_DIRECTORIES in self.cordoned_log_dirs:
            return self.log_directories
        return _absolute(self.cordoned_log_dirs)

    @cached_property
    def abandoned_log_directories(self) -> tuple[str, ...]:
        """Former log directories that this broker gives up, as absolute paths."""
        return _absolute(self.kavka_abandoned_log_dirs)

    @cached_property
    def log_retention_time_ms(self) -> int:
        """Age at which a segment may go, -1 for never: log.retention.ms, else .minutes, else .hours."""
        if self.log_retention_ms is not None:
            time_ms = self.log_retention_ms
        elif self.log_retention_minutes is not None:
            time_ms = self.log_retention_minutes * MINUTE_MS
        else:
            time_ms = self.log_retention_hours * HOUR_MS
        return max(time_ms, -1)

    @cached_property
    def log_roll_time_ms(self) -> int:
        """Age at which a segment is closed: log.roll.ms, else log.roll.hours."""
        return self.log_roll_hours * HOUR_MS if self.log_roll_ms is None else self.log_roll_ms

    @cached_property
    def log_roll_jitter_time_ms(self) -> int:
        """log.roll.jitter.ms, else log.roll.jitter.hours."""
        return self.log_roll_jitter_hours * HOUR_MS if self.log_roll_jitter_ms is None else self.log_roll_jitter_ms

    @cached_property
    def log_flush_time_ms(self) -> int:
        """Time after which unflushed records are flushed: log.flush.interval.ms, else the scheduler's interval."""
        return (
            self.log_flush_scheduler_interval_ms if self.log_flush_interval_ms is None else self.log_flush_interval_ms
        )

    @cached_property
    def log_message_timestamp_before_limit_ms(self) -> int:
        """How far a record's timestamp may lie in the past: the newer setting, else the one for both directions."""
        limit = self.log_message_timestamp_before_max_ms
        return self.log_message_timestamp_difference_max_ms if limit == LONG_MAX else limit

    @cached_property
    def log_message_timestamp_after_limit_ms(self) -> int:
        """How far a record's timestamp may lie in the future: the newer setting, else the one for both directions."""
        limit = self.log_message_timestamp_after_max_ms
        return self.log_message_timestamp_difference_max_ms if limit == LONG_MAX else limit

    @cached_property
    def zookeeper_connection_time_ms(self) -> int:
        """zookeeper.connection.timeout.ms, else the session's timeout."""
        time_ms = self.zookeeper_connection_timeout_ms
        return self.zookeeper_session_timeout_ms if time_ms is None else time_ms

    @property
    def zookeeper_requests_in_flight(self) -> int:
        """zookeeper.max.in.flight.requests, if it is set. The default is higher than Kafka's 10: a new controller reads
        a znode for each partition, and with 10 in flight it waits for round trips (10,000 znodes: 4.3 s, not 1.5)."""
        written = "zookeeper.max.in.flight.requests" in self.static
        return self.zookeeper_max_in_flight_requests if written else DEFAULT_ZOOKEEPER_REQUESTS_IN_FLIGHT

    @cached_property
    def security_protocols(self) -> Mapping[str, str]:
        """Listener name -> security protocol."""
        return parse_protocol_map(self.listener_security_protocol_map)

    @cached_property
    def listener_endpoints(self) -> tuple[Endpoint, ...]:
        """Where connections are accepted."""
        return parse_endpoints("listeners", self.listeners, self.security_protocols)

    @cached_property
    def advertised_endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses for clients and brokers. A host of "" means the host's own name."""
        if self.advertised_listeners is None:
            return self.listener_endpoints
        return parse_endpoints("advertised.listeners", self.advertised_listeners, self.security_protocols)

    @cached_property
    def clear_text_endpoints(self) -> tuple[Endpoint, ...]:
        """Listeners without TLS where others than this machine reach them."""
        return in_clear_beyond(self.listener_endpoints, self.advertised_endpoints)

    @cached_property
    def inter_broker_listener(self) -> str:
        """The name of the listener that the other brokers use."""
        return (self.inter_broker_listener_name or self.security_inter_broker_protocol).upper()

    @cached_property
    def delegation_token_secret(self) -> str | None:
        """The secret that delegation tokens are made with. None, or empty: there are no tokens."""
        newer = self.delegation_token_secret_key
        return self.delegation_token_master_key if newer is None else newer

    @cached_property
    def control_plane_listener(self) -> str | None:
        """The name of the listener over which the controller commands brokers. None means `inter_broker_listener`."""
        return None if self.control_plane_listener_name is None else self.control_plane_listener_name.upper()

    @cached_property
    def early_start(self) -> tuple[str, ...]:
        """Listeners that need not wait for the authorizer. None waits: it is ready before any listener opens."""
        return tuple(filter(None, (name.strip().upper() for name in (self.early_start_listeners or "").split(","))))

    @cached_property
    def connections_per_ip_overrides(self) -> Mapping[str, int]:
        """Host -> bound on its connections, from max.connections.per.ip.overrides."""
        name, text = "max.connections.per.ip.overrides", self.max_connections_per_ip_overrides
        overrides: dict[str, int] = {}
        for entry in filter(None, (e.strip() for e in text.split(","))):
            host, separator, number = entry.rpartition(":")
            if not separator or not number.strip().isdecimal():
                raise InvalidValue(name, text, f"{entry!r} is not host:number")
            overrides[host.strip()] = int(number)
        odd = [host for host in overrides if not _HOST.fullmatch(host)]
        if odd:
            raise ConfigError(f"{name} contains invalid addresses : {','.join(odd)}")
        return overrides

    @cached_property
    def max_connections_of_listeners(self) -> Mapping[str, int]:
        """Listener -> bound on its connections, from listener.name.L.max.connections; the others have max.connections.

        Kafka takes L in small letters alone.
        """
        return self._bounds_of_listeners("max.connections")

    @cached_property
    def max_connection_creation_rate_of_listeners(self) -> Mapping[str, int]:
        """Listener -> connections a second, from listener.name.L.max.connection.creation.rate; the others may have
        all of max.connection.creation.rate."""
        return self._bounds_of_listeners("max.connection.creation.rate")

    def _bounds_of_listeners(self, setting: str) -> Mapping[str, int]:
        bounds = {}
        for endpoint in self.listener_endpoints:
            name = f"listener.name.{endpoint.listener.lower()}.{setting}"
            for texts in (self.dynamic, self.dynamic_default, self.static):
                if name in texts:
                    bounds[endpoint.listener] = int(self.rows[setting].parse(texts[name]))
                    break
        return bounds

    def _check(self) -> None:
        """Refuses settings that are in range one by one but not together."""
        for name, lowest in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
            value = getattr(self, self.rows[name].attribute)
            if value is not None and value < lowest:
                raise InvalidValue(name, value, f"Value must be at least {lowest}")
        for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
            if getattr(self, self.rows[name].attribute) == 0:
                raise InvalidValue(name, 0, "Value must be unlimited (-1) or at least 1")
        if not self.log_directories:
            raise InvalidValue(
                "log.dirs", self.log_dirs, "At least one log directory is needed, in log.dirs or log.dir"
            )
        if len(set(self.log_directories)) != len(self.log_directories):
            raise InvalidValue("log.dirs", self.log_dirs, "Each log directory may be named once")
        self._check_cordoned()
        self._check_together()
        self._check_broker_id()
        self._check_listeners()
        self._check_zookeeper()
        overrides = self.connections_per_ip_overrides
        if self.max_connections_per_ip == 0 and not overrides:
            # Nobody could get in, and whoever would undo it neither.
            raise InvalidValue(
                "max.connections.per.ip", 0, "Value can be 0 only where max.connections.per.ip.overrides is set"
            )
        endpoint = self.kavka_otlp_traces_endpoint
        if endpoint and not re.fullmatch(r"https?://[^/\s]+(/\S*)?", endpoint):
            raise InvalidValue(
                "kavka.otlp.traces.endpoint", endpoint, "Value must be a URL, such as http://collector:4318/v1/traces"
            )
        if re.match(r"https?://[^/?#]*@", endpoint):
            # It would be in log lines, and in the answer to whoever may describe settings.
            raise InvalidValue(
                "kavka.otlp.traces.endpoint",
                "[hidden]",
                "Value must not have a user or password: put them into the variable OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            )
        _ = self.max_connections_of_listeners, self.max_connection_creation_rate_of_listeners

    def _check_cordoned(self) -> None:
        if ALL_DIRECTORIES in self.cordoned_log_dirs and len(self.cordoned_log_dirs) > 1:
            raise InvalidValue(
                "cordoned.log.dirs", ",".join(self.cordoned_log_dirs), f"{ALL_DIRECTORIES} stands for all, and alone"
            )
        unknown = [path for path in self.cordoned_log_directories if path not in self.log_directories]
        if unknown:
            raise InvalidValue(
                "cordoned.log.dirs", ",".join(self.cordoned_log_dirs), f"log.dirs does not name {', '.join(unknown)}"
            )

    def _check_together(self) -> None:
        if "classic" not in self.group_coordinator_rebalance_protocols:
            raise ConfigError("Disabling the 'classic' protocol is not supported.")
        self._at_least("replica.socket.timeout.ms", "replica.fetch.wait.max.ms")
        self._at_least("replica.lag.time.max.ms", "replica.fetch.wait.max.ms")
        self._at_least("log.cleaner.dedupe.buffer.size", "log.cleaner.threads", times=MIB)
        self._at_least("group.max.session.timeout.ms", "group.min.session.timeout.ms")
        if self.queued_max_request_bytes > 0:
            self._at_least("queued.max.request.bytes", "socket.request.max.bytes")
        if self.connections_max_idle_ms > 0:
            self._at_least("connections.max.idle.ms", "connection.failed.authentication.delay.ms")
        for what in ("heartbeat.interval.ms", "session.timeout.ms"):
            for kind in ("consumer", "share", "streams"):
                self._at_least(f"group.{kind}.max.{what}", f"group.{kind}.{what}")
                self._at_least(f"group.{kind}.{what}", f"group.{kind}.min.{what}")
        self._at_least("group.streams.max.standby.replicas", "group.streams.num.standby.replicas")
        if not 0 <= self.offsets_topic_compression_codec < len(_CODECS):
            raise InvalidValue(
                "offsets.topic.compression.codec",
                self.offsets_topic_compression_codec,
                f"Value must be {', '.join(f'{number} for {name}' for number, name in enumerate(_CODECS))}",
            )
        if not -1 <= self.offsets_commit_required_acks <= self.offsets_topic_replication_factor:
            raise InvalidValue(
                "offsets.commit.required.acks",
                self.offsets_commit_required_acks,
                "Value must be between -1 and that of offsets.topic.replication.factor, which is "
                f"{self.offsets_topic_replication_factor}",
            )

    def _at_least(self, name: str, other: str, *, times: int = 1) -> None:
        value = getattr(self, self.rows[name].attribute)
        bound = getattr(self, self.rows[other].attribute) * times
        if value < bound:
            factor = f" x {times}" if times > 1 else ""
            raise InvalidValue(name, value, f"Value must be at least that of {other}{factor}, which is {bound}")

    def _check_broker_id(self) -> None:
        generated = self.broker_id_generation_enable
        lowest = -1 if generated else 0
        highest = self.reserved_broker_max_id if generated else LONG_MAX
        if not lowest <= self.broker_id <= highest:
            limit = f" and no more than reserved.broker.max.id={highest}" if generated else ""
            raise InvalidValue("broker.id", self.broker_id, f"Value must be at least {lowest}{limit}")
        if self.broker_id != self.node_id:
            raise InvalidValue("broker.id", self.broker_id, f"Value must be that of node.id, which is {self.node_id}")

    def _check_listeners(self) -> None:
        if not self.listener_endpoints:
            raise InvalidValue("listeners", self.listeners, "At least one listener is needed")
        check_ports(self.listeners, self.listener_endpoints)
        names = {endpoint.listener for endpoint in self.listener_endpoints}
        for endpoint in self.advertised_endpoints:
            advertised = str(endpoint)
            if endpoint.listener not in names:
                raise InvalidValue("advertised.listeners", advertised, f"listeners has none named {endpoint.listener}")
            if endpoint.host == "0.0.0.0":
                raise InvalidValue(
                    "advertised.listeners",
                    advertised,
                    "nobody can connect to the meta-address 0.0.0.0; set advertised.listeners to a routable address",
                )
        if self.inter_broker_listener_name is not None and "security.inter.broker.protocol" in self.static:
            raise InvalidValue(
                "inter.broker.listener.name",
                self.inter_broker_listener_name,
                "Only one of inter.broker.listener.name and security.inter.broker.protocol may be set",
            )
        self._check_inter_broker_listener([endpoint.listener for endpoint in self.advertised_endpoints])
        if self.kavka_refuse_insecure_listeners and self.clear_text_endpoints:
            raise InvalidValue(
                "listeners",
                self.listeners,
                f"{', '.join(map(str, self.clear_text_endpoints))} has no TLS, is not of the loopback, and "
                "kavka.refuse.insecure.listeners is true: use SSL or SASL_SSL",
            )
        self._check_special_listeners(names)
        for endpoint in self.listener_endpoints:
            if endpoint.security_protocol in TLS_PROTOCOLS:
                from kavka.config.tls import tls_settings  # late: most brokers have no listener with TLS

                tls_settings(self, endpoint)

    def _check_inter_broker_listener(self, advertised: list[str]) -> None:
        """Says which setting chose the listener: who set neither of the two looks for one that is not in the file."""
        if (listener := self.inter_broker_listener) in advertised:
            return
        by_name = self.inter_broker_listener_name is not None
        is_default = not by_name and "security.inter.broker.protocol" not in self.static
        raise InvalidValue(
            "inter.broker.listener.name" if by_name else "security.inter.broker.protocol",
            f"{listener} (the default)" if is_default else listener,
            f"brokers would speak to each other through a listener {listener}, and advertised.listeners has only "
            f"{', '.join(advertised)}; set inter.broker.listener.name={advertised[0]}, for example",
        )

    def _check_zookeeper(self) -> None:
        if (
            self.zookeeper_ssl_client_enable
            or self.zookeeper_set_acl
            or self.zookeeper_client_cnxn_socket is not None
            or self.kavka_zookeeper_sasl_jaas_config is not None
        ):
            from kavka.config.zookeeper import check  # late: few brokers need it

            check(self)

    def _check_special_listeners(self, names: Collection[str]) -> None:
        control = self.control_plane_listener
        advertised = [endpoint.listener for endpoint in self.advertised_endpoints]
        if control is not None and control not in advertised:
            raise InvalidValue(
                "control.plane.listener.name",
                self.control_plane_listener_name,
                f"Value must be a listener of advertised.listeners, which has {', '.join(advertised)}",
            )
        if control == self.inter_broker_listener:
            raise InvalidValue(
                "control.plane.listener.name",
                self.control_plane_listener_name,
                "Value must be a different listener than inter.broker.listener.name",
            )
        for name in self.early_start:
            if name not in names:
                raise InvalidValue(
                    "early.start.listeners", self.early_start_listeners, f"listeners has none named {name}"
                )


def _absolute(directories: Iterable[str]) -> tuple[str, ...]:
    """The paths as they are from any working directory; empty ones are left out."""
    return tuple(os.path.abspath(directory.strip()) for directory in directories if directory.strip())


def _with_both_ids(properties: Mapping[str, str]) -> dict[str, str]:
    """broker.id and node.id are two names of one thing: where one is given, the other has its value."""
    static = dict(properties)
    if "broker.id" in static:
        static.setdefault("node.id", static["broker.id"])
    elif "node.id" in static:
        static["broker.id"] = static["node.id"]
    return static
