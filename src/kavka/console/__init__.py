"""The operators' console: pages about any cluster that speaks Kafka's protocol, served by one process.

It reaches clusters through kavka's client alone, keeps its history and settings in SQLite files, and writes to a
cluster only when an operator has confirmed an action.

server       the application on its port
app          the web application: finds the pages, installs the guard, turns failures into pages
pages/       one module for each page, or for a few that belong together
metrics      the console's own metrics at /metrics
live_events  tells an open page that there is something newer
actions/     what an operator may change: form, preview, run
jobs/        moves of replicas: plan, throttle, progress, resumed after a restart
messages/    records of a topic: search, live tail, decoding, schemas
sources/     what pages read besides a cluster's snapshot: churn windows, znodes, simulations
look/        how values become what a reader sees: charts, texts, languages, templates
access/      who may come in: users, sessions, forms, security headers, the audit log
clusters     each cluster with its watcher, its history and its health
history      how clusters were: series over time, in SQLite
ledger       the SQLite file of what must not be lost: users, sessions, audit log, jobs
settings     which clusters the console shows and where it listens

templates/, static/ and translations/ are read as the package's data. A module here may import those below it, not
those above; the type `Console` of `app`, which every page is given, is the one exception.
"""
