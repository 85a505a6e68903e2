"""Alerts: somebody is told when something fails, and when it is over.

Decides what is told to whom, and when. Must not know pages, nor what a rule means (alert_rules).

book     each condition's way from its first sight to its end, in the ledger; silences
senders  what is sent: to a webhook, Slack, PagerDuty, by mail
keeper   looks at the clusters every few seconds, and has sent what is due
"""
