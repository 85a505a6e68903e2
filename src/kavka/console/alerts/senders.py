"""What is sent of an alert, in the form of each receiver, and how.

Decides bodies and what counts as delivered. Must not know when something is sent.

    webhook    POST of JSON: version, status (firing, resolved, event, test), rule, cluster, key, severity, text, since,
               link
    slack      POST of {"text"}, to an incoming webhook
    pagerduty  POST of an Events API v2 event: trigger or resolve, with a dedup_key for each alert
    mail       SMTP, with STARTTLS unless the settings say otherwise

I1  Delivered is what a webhook answered with 2xx (`runtime.webhooks`), or what the mail server took.
I2  Text of a cluster stays text: Slack's control characters are escaped, a mail's subject has one line.

Source: Slack's incoming webhooks; PagerDuty's Events API v2; RFC 5321.
"""

from __future__ import annotations

import hashlib
import json
import smtplib
import ssl
from datetime import UTC, datetime
from email.message import EmailMessage
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

from kavka.runtime.http.webhooks import NotDelivered, post

if TYPE_CHECKING:
    from kavka.console.alert_rules import Mail, Target

TIMEOUT_S: Final = 10.0


class Told(NamedTuple):
    """What somebody is told."""

    status: str
    rule: str
    cluster: str
    key: str
    severity: str
    text: str
    since_ms: int
    link: str = ""

    @property
    def subject(self) -> str:
        word = {"resolved": "over", "event": "happened", "test": "test"}.get(self.status, self.severity)
        return " ".join(f"[{word}] {self.cluster}: {self.key.split(' ', 1)[-1]}".split())

    @property
    def since(self) -> str:
        return datetime.fromtimestamp(self.since_ms / 1_000, UTC).isoformat(timespec="seconds")


def link_of(console: str, cluster: str, path: str) -> str:
    """The page of an alert; '' where the settings do not say where the console is."""
    return f"{console.rstrip('/')}/c/{quote(cluster, safe='')}/{path}" if console else ""


def body_of(target: Target, told: Told) -> Any:
    """The JSON that is posted."""
    match target.kind:
        case "slack":
            link = f"\n{told.link}" if told.link else ""
            return {"text": f"*{_slack(told.subject)}*\n{_slack(told.text)}{link}"}
        case "pagerduty":
            return _pagerduty(target, told)
        case _:
            return {"version": 1, **told._asdict(), "since": told.since}


def send(target: Target, told: Told) -> None:
    """Blocks until it is delivered. Raises NotDelivered."""
    if target.mail is not None:
        _send_mail(target.mail, told)
    else:
        post(target.address, body_of(target, told))


def _pagerduty(target: Target, told: Told) -> Any:
    key = hashlib.sha256(json.dumps([told.rule, told.cluster, told.key]).encode()).hexdigest()
    event: dict[str, Any] = {"routing_key": target.key, "dedup_key": key}
    if told.status == "resolved":
        return {**event, "event_action": "resolve"}
    severity = told.severity if told.severity in ("critical", "error", "warning", "info") else "info"
    return {
        **event,
        "event_action": "trigger",
        "client": "kavka",
        "payload": {
            "summary": f"{told.subject}: {told.text}"[:1_024],
            "source": told.cluster,
            "severity": severity,
            "timestamp": told.since,
            "component": told.key,
            "group": told.rule,
        },
        "links": [{"href": told.link, "text": "kavka's console"}] if told.link else [],
    }


def _slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _send_mail(mail: Mail, told: Told) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = told.subject[:200], mail.sender, ", ".join(mail.to)
    message.set_content("\n".join(filter(None, (told.text, "", f"since {told.since}, rule {told.rule}", told.link))))
    try:
        with smtplib.SMTP(mail.host, mail.port, timeout=TIMEOUT_S) as server:
            if mail.tls:
                server.starttls(context=ssl.create_default_context())
            if mail.username:
                server.login(mail.username, mail.password)
            server.send_message(message)
    except (OSError, smtplib.SMTPException, ValueError) as failed:
        raise NotDelivered(str(failed) or type(failed).__name__) from None
