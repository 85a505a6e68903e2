"""The operators' console: pages about any cluster that speaks Kafka's protocol, served by one process.

It reaches clusters through kavka's client alone, keeps its history and settings in SQLite files, and writes to a
cluster only when an operator has confirmed an action.

From top to bottom; each may import those below it:

server       the application on its port
app          the web application: finds the pages, puts the guard before them, turns failures into pages
pages/       one module for each page, or for a few that belong together
live_events  reports to an open page that there is something newer
metrics      the console's own metrics at /metrics
console      what every page is given: settings, clusters, jobs, templates
actions/     what an operator may change: form, preview, run
alerts/      who is told when something fails, and when it is over
jobs/        moves of replicas: plan, throttle, progress, resumed after a restart
sources/     what pages read besides a cluster's snapshot: churn windows, znodes, simulations
messages/    records of a topic: search, live tail, decoding, schemas
look/        how values become what a reader sees: charts, texts, languages, templates
access/      who may come in: users, sessions, forms, security headers, the audit log
clusters     each cluster with its watcher, its history and its health
history      how clusters were: series over time, in SQLite
ledger       the SQLite file of what must not be lost: users, sessions, audit log, jobs
explained_rights what somebody may do, and which line of the settings decides it
settings     which clusters the console shows, where it listens, who may do what
sso_settings by which provider people log in, and which rights their groups have
alert_rules  what a rule for alerts says, and which conditions of a cluster it is about
masks        which fields of messages are replaced for those who may not see them
asked_path   the path that a request asked for, names in it encoded
rights       what somebody may do: roles on clusters, with topics, with messages

templates/, static/ and translations/ are the package's data.
"""
