"""ssl.principal.mapping.rules: Kafka's own examples (KIP-371), and what its SslPrincipalMapper does besides.

What a rule makes here is what that class of Apache Kafka 3.9.2 made on Java 17.
"""

from __future__ import annotations

import time

import pytest

from kavka.security.ssl_principal_rules import NoMatchingRule, PrincipalRules

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
SME = "CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", DUKE, DUKE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", DUKE, "Duke"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT", SME, SME),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, DEFAULT", SME, "duke@sme"),
        ("RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U", "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("RULE:^CN=(.*?),.*$/$1-$7/", DUKE, "Duke-$7"),
        ("RULE:^CN=(.*?),.*$/$12/", DUKE, "Duke2"),
        ("RULE:^CN=(.*?),.*$/a\\/b\\$1/", DUKE, "a/b$1"),
        ("RULE:^CN=(?<name>.*?),.*$/$1/", DUKE, "Duke"),
        ("RULE:^CN=(?<name>.*?),.*$/${name}/", DUKE, "Duke"),
        ("RULE:^CN=(.*?),.*$/$01-$0/", "CN=a,C=b", "a-CN=a,C=b"),
        ("RULE:^CN=(\\w+)$/$1/,DEFAULT", "CN=ålice", "CN=ålice"),  # As in Java \w knows ASCII only.
        ("RULE:^CN=(.*)$/$1/,DEFAULT", "CN=a\rb", "CN=a\rb"),  # "." is no end of a line, which Java has more of.
        ("RULE:.*/x/,DEFAULT", "", "x"),
        ("RULE:.*/x/", DUKE, "xx"),  # Java's replaceAll finds the empty text behind it, too.
        (" DEFAULT , RULE:.*/x/", DUKE, DUKE),
    ],
)
def test_the_first_rule_that_fits_makes_the_name(rules: str, name: str, principal: str) -> None:
    assert PrincipalRules(rules).name(name) == principal


def test_a_pattern_must_match_the_whole_name() -> None:
    with pytest.raises(NoMatchingRule, match="CN=Duke"):
        PrincipalRules("RULE:CN=Duke/x/").name(DUKE)


@pytest.mark.parametrize("rules", ["default", "RULE:", "RULE:^CN=(.*?),/$1", "RULE:(/x/", "RULE:a/b/X", "RULE:a/b/LU"])
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        PrincipalRules(rules)


@pytest.mark.parametrize("rules", ["RULE:^CN=.*$/$1/", "RULE:^(.*)$/${name}/", "RULE:^(.*)$/a$/", "RULE:(a[b&&c])/$1/"])
def test_a_replacement_or_a_pattern_that_java_could_not_use_is_refused(rules: str) -> None:
    """Kafka closes each connection; with a text like "$1" everybody would have one name here."""
    with pytest.raises(ValueError, match="Invalid rule"):
        PrincipalRules(rules)


def test_a_name_of_many_parts_is_refused_in_bounded_time() -> None:
    """Kafka's own example of a rule, with ",OU=" a hundred times in the name: `re` takes hours, and the GIL with it."""
    rules = PrincipalRules("RULE:^CN=(.*?),OU=(.*?),OU=(.*?),OU=(.*?),OU=(.*?),C=(.*?)$/$1@$2/L")
    began = time.process_time()
    with pytest.raises(NoMatchingRule):
        rules.name("CN=x" + ",OU=a" * 100)
    with pytest.raises(NoMatchingRule, match="take too long"):
        rules.name("CN=x" + ",OU=a" * 3_000)
    assert time.process_time() - began < 3
