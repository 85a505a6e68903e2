"""TLS of one broker: its listeners' certificates from the start to the end, and how it calls other brokers.

Decides when certificates are read again, and whether new ones may take the place of those that there are. It must not
know connections, nor how stores are read. Loaded only where a broker has a listener with TLS.

    look      every kavka.ssl.reload.interval.ms, at SIGHUP, and when the settings changed: do the files differ?
    judge     can they be used? Can brokers with the old and the new ones connect to each other? Same name, no fewer
              alternative names, unless ssl.allow.dn.changes and ssl.allow.san.changes say so (KIP-978)
    replace   for connections from now on, either way; open ones stay

I1  Whatever is wrong with new certificates, the old ones stay in force. Half-written pairs are looked at again.
I2  The broker starts only with certificates that can be used, and that let brokers connect to each other.
I3  The same files are judged once: one log line and one why-record for each change.

Source: Kafka's SslFactory and DynamicListenerConfig.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kavka.config.listeners import TLS_PROTOCOLS
from kavka.config.tls import TlsSettings, handshake_limits, tls_settings
from kavka.decisions import Decision, DecisionKind, RecordDecision, forget
from kavka.errors import ConfigError
from kavka.logger import Logger
from kavka.model import BrokerId
from kavka.runtime.process import wall_ms
from kavka.runtime.tls.tls_contexts import (
    FileState,
    TlsContexts,
    file_states,
    require_handshake,
    tls_contexts,
    warn_of_open_key,
)
from kavka.runtime.tls.tls_listener import TlsListener, TlsRooms
from kavka.runtime.tls.tls_network import TlsNetwork
from kavka.security.certificate_changes import refusal
from kavka.security.principals import ANONYMOUS, USER
from kavka.security.ssl_principal_rules import PrincipalRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from kavka.config.broker import BrokerConfig
    from kavka.config.listeners import Endpoint
    from kavka.metrics import Member, Registry
    from kavka.runtime.network.processor import Connect

logger = Logger(__name__)


class _Served(NamedTuple):
    """One listener: what its connections ask, its certificates, and how the files were when they were read."""

    listener: TlsListener
    settings: TlsSettings
    contexts: TlsContexts
    files: tuple[FileState | None, ...]


class BrokerTls:
    """TLS of one broker. Made at its start; raises ConfigError where its certificates cannot be used."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._record: RecordDecision = forget
        self._rooms = TlsRooms(handshake_limits(config))
        self._served: dict[str, _Served] = {}
        self._refused: dict[str, object] = {}
        """By listener: the settings and files that were refused last."""
        for endpoint in _endpoints(config):
            settings = tls_settings(config, endpoint)
            if not settings.key_store.is_set:
                raise ConfigError(
                    f"listener {endpoint} has TLS and no certificate: set ssl.keystore.location, or "
                    "ssl.keystore.certificate.chain and ssl.keystore.key with ssl.keystore.type=PEM"
                )
            files = file_states(settings.files)
            contexts = tls_contexts(settings, warn=warn_of_open_key)
            if endpoint.listener == config.inter_broker_listener:
                require_handshake(contexts, contexts)
            listener = TlsListener(settings, contexts.server, self._rooms)
            self._served[endpoint.listener] = _Served(listener, settings, contexts, files)

    def connect_of(self, listener: str) -> Connect | None:
        """What makes the listener's connections; None for one without TLS."""
        served = self._served.get(listener)
        return None if served is None else served.listener.connect

    def network_of(self, listener: str) -> TlsNetwork | None:
        """How other brokers are called that have this listener; None for one without TLS."""
        if listener not in self._served:
            return None
        return TlsNetwork(lambda: self._served[listener].contexts.client, resets=True)

    def principal_of(self, listener: str) -> str:
        """Who this broker is to others that it calls there."""
        served = self._served.get(listener)
        if served is None or served.settings.client_auth == "none" or not served.settings.names_clients:
            return str(ANONYMOUS)
        return f"{USER}:{PrincipalRules(served.settings.principal_rules).name(served.contexts.certificate.subject)}"

    @property
    def asks_for_certificates(self) -> bool:
        """Whether clients of some listener may show who they are."""
        return any(served.settings.client_auth != "none" for served in self._served.values())

    def register(self, registry: Registry) -> None:
        """Gauges for each listener: milliseconds until its certificate expires; open connections by what they speak;
        and handshakes, which are authentications in Kafka's metrics. Where clients log in besides, the login's gate
        shows those."""
        group, kind = "kafka.server", "socket-server-metrics"
        registry.family(group, kind, "connections", self._by_what_they_speak)
        for name, served in self._served.items():
            registry.gauge(group, kind, "certificate-expiry-ms", partial(self._left_ms, name), listener=name)
            shown: dict[str, Callable[[], float]] = {
                "successful-authentication-total": partial(self.succeeded, name),
                "successful-authentication-no-reauth-total": partial(self.succeeded, name),
                "failed-authentication-total": partial(self.failed, name),
            }
            for metric, read in shown.items() if served.settings.names_clients else ():
                registry.gauge(group, kind, metric, read, listener=name, networkProcessor="0")

    def _by_what_they_speak(self) -> list[Member]:
        return [
            ((*spoken.tags, ("listener", name), ("networkProcessor", "0")), count)
            for name, served in sorted(self._served.items())
            for spoken, count in sorted(served.listener.open().items())
        ]

    def succeeded(self, listener: str) -> int:
        """Handshakes of a listener after which it was known who the client is."""
        return self._served[listener].listener.succeeded

    def failed(self, listener: str) -> int:
        """Handshakes of a listener that failed; 0 for one without TLS."""
        served = self._served.get(listener)
        return 0 if served is None else served.listener.failed

    def _left_ms(self, name: str) -> float:
        return self._served[name].contexts.certificate.not_after_ms - time.time() * 1000

    # Later

    async def watch(self, record: RecordDecision) -> None:
        """Looks at the files now and then, for ever. What is refused from now on, `record` takes down."""
        self._record = record
        interval_s = self._config.kavka_ssl_reload_interval_ms / 1000
        while interval_s > 0:
            await asyncio.sleep(interval_s)
            self.reload(self._config)

    def look_now(self) -> None:
        """Looks at the files without waiting for the next time."""
        self.reload(self._config)

    def reload(self, config: BrokerConfig) -> None:
        """Replaces the certificates of listeners whose settings or files are different now."""
        self._config = config
        for endpoint in _endpoints(config):
            served = self._served.get(endpoint.listener)
            if served is not None:
                self._look(endpoint, served)

    def _look(self, endpoint: Endpoint, served: _Served) -> None:
        name = endpoint.listener
        try:
            settings = tls_settings(self._config, endpoint)
            files = file_states(settings.files)
            if (settings, files) == (served.settings, served.files):
                self._refused.pop(name, None)
                return
            if self._refused.get(name) == (settings, files):
                return
            self._refused[name] = (settings, files)
            contexts = tls_contexts(settings)
            self._judge(served, settings, contexts)
        except ConfigError as error:
            self._refuse(served, str(error))
            return
        del self._refused[name]
        served.listener.settings, served.listener.context = settings, contexts.server
        self._served[name] = _Served(served.listener, settings, contexts, files)
        logger.info(
            "certificates replaced for new connections",
            listener=name,
            subject=contexts.certificate.subject,
            days_left=round((contexts.certificate.not_after_ms / 1000 - time.time()) / 86_400),
        )

    def _refuse(self, served: _Served, reason: str) -> None:
        listener, stays = served.settings.listener, served.contexts.certificate
        sentence = f"new certificates for listener {listener} are refused, the old ones stay in force: {reason}"
        logger.error("certificate refused", why=sentence, next=_NEXT)
        broker_id = BrokerId(self._config.broker_id)
        self._record(
            Decision(
                DecisionKind.CERTIFICATE_REFUSED,
                wall_ms(),
                broker_id,
                sentence,
                about_broker=broker_id,
                evidence={
                    "listener": listener,
                    "reason": reason,
                    "subject": stays.subject,
                    "expires_ms": stays.not_after_ms,
                },
            )
        )

    def _judge(self, served: _Served, settings: TlsSettings, contexts: TlsContexts) -> None:
        """Raises ConfigError where the new certificates may not take the old ones' place."""
        if settings.listener == self._config.inter_broker_listener:
            for server, client in ((contexts, contexts), (served.contexts, contexts), (contexts, served.contexts)):
                require_handshake(server, client)
        why_not = refusal(
            served.contexts.certificate,
            contexts.certificate,
            allows_other_name=settings.allows_other_name,
            allows_fewer_alternative_names=settings.allows_fewer_alternative_names,
        )
        if why_not is not None:
            raise ConfigError(why_not)


_NEXT = (
    "put a key and a chain that fit together in place; the files are looked at again every kavka.ssl.reload.interval.ms"
)


def _endpoints(config: BrokerConfig) -> list[Endpoint]:
    return [endpoint for endpoint in config.listener_endpoints if endpoint.security_protocol in TLS_PROTOCOLS]
