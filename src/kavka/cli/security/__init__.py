"""Who may do what, and how much of it.

security       what a cluster leaves open
denied         `kavka why denied`: what was refused, and the command that would allow it
acls           access control lists
quotas         what clients may use
users          users and their passwords; user_rights: what `users add` gives besides a password
tokens         delegation tokens
"""
