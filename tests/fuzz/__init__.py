"""Damaged input in numbers, for whatever reads what strangers send."""
