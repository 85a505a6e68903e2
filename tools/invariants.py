"""Where the broker halts itself: python tools/invariants.py prints what halts and says not why no request gets there.

An InvariantViolation ends the broker (ARCHITECTURE.md, "Failures have three kinds"), so a client must not be able to
cause one. Each function that raises it has a row below: what was asked before, so that no request, no file and no
answer of another server leads there. A raise without a row, and a row without its raise, fail `make check`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
HALTS: Final = "InvariantViolation"

_MOVE: Final = "the states that a request may meet are refused by its handler before; the model test tries all pairs"
REASONS: Final[Mapping[str, str]] = {
    "client/transactions.py:_move": "a client's own process, not a broker",
    "coordinator/groups/classic/decide/group.py:_move": _MOVE,
    "coordinator/groups/classic/decide/membership.py:vote": "candidates are the protocols that every member has",
    "coordinator/transactions/decide/state.py:_move": _MOVE,
    "coordinator/transactions/decide/state.py:with_next_epoch": "an exhausted epoch gets a new producer id before",
    "log/decide/accepted_batches.py:accept_own": "the bytes are a coordinator's, who has just built them",
    "log/log_manager.py:__init__": "at a start, of settings that were checked before",
    "log/unified_log.py:truncate_to": "negative offsets of a leader are answers without an offset (leader_questions)",
    "protocol/compiler.py:smallest_element": "at an import, of kavka's own schemas",
    "protocol/samples.py:_scalar": "for tests and fuzzers, of kavka's own schemas",
    "replication/decide/fetch_state.py:_move": "stages follow from answers that are asked for in that stage only",
    "replication/decide/partition.py:_check_members": "an R8 that does not hold: better no broker than a lost record",
    "replication/decide/partition.py:_maybe_advance_high_watermark": "it is moved here only; a failed log left before",
    "replication/decide/partition.py:_proposal": "a leader proposes members beside itself, whoever asked",
    "replication/decide/partition.py:record_follower_fetch": "its offset was read before, without an await between",
    "replication/isr_changes.py:run": "writers answer each proposal, whatever the controller's answer lacks",
    "zookeeper/client.py:_expect": "an answer is decoded as its request's kind, or is a ProtocolViolation",
    "zookeeper/client_session.py:_move": "phases follow from the client's own calls and from its connection's end",
    "zookeeper/database.py:append": "transactions come from the tree, one after the other",
    "zookeeper/database.py:begin_snapshot": "taken between two commits; nothing is appended meanwhile",
    "zookeeper/database.py:_write_snapshot": "as `begin_snapshot`",
    "zookeeper/decide/node.py:remove_child": "who removes a child found it under its parent",
    "zookeeper/decide/session_protocol.py:_require": "who serves a connection asks whether it is open after each await",
    "zookeeper/decide/session_protocol.py:reply": "requests of a connection are answered in their order",
    "zookeeper/decide/tree.py:replay": "of a damaged log: whoever replays it makes it a DamagedFile",
    "zookeeper/decide/tree.py:_revert": "steps are made by the tree itself",
    "zookeeper/request_handler.py:_query": "a request is decoded as its op's record",
    "zookeeper/request_handler.py:operation_of": "a request is decoded as its op's record",
}
"""Below src/kavka, file:function."""


def problems(sources: Mapping[str, str], reasons: Mapping[str, str] = REASONS) -> list[str]:
    """A sentence for each raise without a row, and for each row without a raise."""
    found = {name for path, text in sources.items() for name in _raising(path, text)}
    return [
        f"{name} halts the broker; tools/invariants.py says not why no request gets there"
        for name in sorted(found - reasons.keys())
    ] + [f"{name} raises no {HALTS} any more: take its row off tools/invariants.py" for name in reasons.keys() - found]


def _raising(path: str, text: str) -> Iterator[str]:
    """The innermost function around each raise."""
    if HALTS not in text:
        return

    def walk(node: ast.AST, function: str) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call) and _name(child.exc.func) == HALTS:
                yield f"{path}:{function}"
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from walk(child, child.name if is_function else function)

    yield from walk(ast.parse(text), "")


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def read() -> dict[str, str]:
    source = ROOT / "src" / "kavka"
    return {str(path.relative_to(source)): path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}


if __name__ == "__main__":
    lines = problems(read())
    print(*lines, sep="\n", end="\n" if lines else "")
    sys.exit(1 if lines else 0)
