"""A certificate takes another's place if it names the same subject and at least the same hosts."""

from __future__ import annotations

from kavka.security.certificate_changes import refusal
from kavka.security.certificates import Certificate


def certificate(subject: str = "CN=broker 1,O=Kavka", *names: str) -> Certificate:
    return Certificate(subject, "CN=authority", 0, 1, frozenset(names))


def why_not(old: Certificate, new: Certificate, *, other_name: bool = False, fewer_names: bool = False) -> str | None:
    return refusal(old, new, allows_other_name=other_name, allows_fewer_alternative_names=fewer_names)


def test_the_same_subject_and_more_names_may_come() -> None:
    old, new = certificate("CN=a", "DNS:a"), certificate("cn=A", "DNS:a", "DNS:b")
    assert why_not(old, new) is None


def test_another_subject_is_refused_unless_it_is_allowed() -> None:
    old, new = certificate("CN=a"), certificate("CN=b")
    told = why_not(old, new)
    assert told is not None
    assert "existing=CN=a, new=CN=b; ssl.allow.dn.changes=true" in told
    assert why_not(old, new, fewer_names=True) == told
    assert why_not(old, new, other_name=True) is None


def test_a_name_that_is_missing_is_refused_unless_that_is_allowed() -> None:
    old, new = certificate("CN=a", "DNS:a", "IP:7f000001"), certificate("CN=a", "DNS:a")
    told = why_not(old, new)
    assert told is not None
    assert "IP:7f000001 would be missing; ssl.allow.san.changes=true" in told
    assert why_not(old, new, other_name=True) == told
    assert why_not(old, new, fewer_names=True) is None
