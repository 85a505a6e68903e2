"""Why a host started this broker's process again, as a why-record. Decides its sentence and evidence.

The host (`kavka host`) cannot record it itself: it is no broker, and the one that it is about was not there. So it
tells the new process, which records it once it serves. Must not know how the host tells it.

    {"cause": "ended", "pid": 71, "how": "by signal SIGKILL", "after_ms": 1000, "times": 1}
    {"cause": "asked", "pid": 71}                a restart that somebody asked for
"""

from __future__ import annotations

import json

from kavka.decisions import Decision, DecisionKind, Facts
from kavka.model import BrokerId


def restart(told: str, at_ms: int, broker_id: BrokerId) -> Decision:
    """The record of what the host told. What it does not tell is left out."""
    facts = _facts(told)
    if facts.get("cause") == "ended":
        cause, times = facts.get("how", "somehow"), facts.get("times", 1)
        why = (
            f"the host started broker {broker_id} again {facts.get('after_ms', 0)} ms after its process "
            f"{facts.get('pid', -1)} had ended {cause}; that was end {times} in a row"
        )
    else:
        why = f"the host restarted broker {broker_id}, as it was asked to; its process was {facts.get('pid', -1)}"
    return Decision(DecisionKind.BROKER_RESTARTED, at_ms, broker_id, why, about_broker=broker_id, evidence=facts)


def _facts(told: str) -> Facts:
    try:
        facts = json.loads(told)
    except ValueError:
        return {}
    return (
        {name: fact for name, fact in facts.items() if isinstance(fact, str | int)} if isinstance(facts, dict) else {}
    )
