"""Named scenarios: each plays what happens to one partition, and checks the outcome.

`SCENARIOS` has them by name: those of the articles, and those of docs/design/known-bugs.md (S1, S2, ...). A scenario
passes if it returns. It raises `Unexpected` if the cluster does not do what it must, and `Violation` if a rule is
broken on the way. Leader A, followers B and C, controller D: see `play`.

    articles    what happens to an ISR when leader and followers die in turn
    divergence  S1 to S12: where two logs part, and which of them is cut back
    isr         S13 to S24: who may join the ISR, who must leave, what is committed
    controller  S25 to S36: who decides, who is told, who is too late
    storage     S37 to S41: crashes, damage, disks that fail, clocks
    producers   S42 and S43: what is sent twice is there once
    transactions  S44 to S49: all or nothing
    access        S52 to S55: who may do what, while it changes
    sessions      S56 to S60, S68: logins, and what ends them
    rollouts      S61, S62: certificates and listeners that change broker by broker
    floods        S63 to S65: more connections than there may be
    idle          S66, S67: what fetches leave out while nothing changes it
    play          the words in which a scenario is told: what is asked and written; play_view: what it sees;
                  play_faults: what strikes; play_clients, play_wire: its clients and its requests
    registry      the list of scenarios
"""

from kavka.simulator.scenarios import articles, divergence, isr, controller, storage  # isort: skip # as they are listed
from kavka.simulator.scenarios import producers, transactions, access, sessions, rollouts, floods, idle  # isort: skip
from kavka.simulator.scenarios.isr import lose_last_standing
from kavka.simulator.scenarios.registry import LAGGING, SCENARIOS, Scenario, play, scenario

__all__ = [
    "LAGGING",
    "SCENARIOS",
    "Scenario",
    "access",
    "articles",
    "controller",
    "divergence",
    "floods",
    "idle",
    "isr",
    "lose_last_standing",
    "play",
    "producers",
    "rollouts",
    "scenario",
    "sessions",
    "storage",
    "transactions",
]
