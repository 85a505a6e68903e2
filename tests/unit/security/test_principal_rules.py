"""ssl.principal.mapping.rules: Kafka's own examples (KIP-371), and what its SslPrincipalMapper does besides."""

from __future__ import annotations

import pytest

from kavka.security.principal_rules import NoMatchingRule, PrincipalRules

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
        ("RULE:.*/x/,DEFAULT", "", "x"),
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
