"""PATIENT: settings of brokers of `kavka.testing` in tests that are not about their failures.

The package's own defaults notice in two seconds that a broker stands still. A machine that does much else stands still
for as long now and then: sessions end, the controller changes, and a client is told so. Brokers with these settings
wait for it. One that is killed is noticed all the same, by its connections.
"""

from __future__ import annotations

PATIENT = {"zookeeper.session.timeout.ms": 20_000, "replica.lag.time.max.ms": 20_000}
