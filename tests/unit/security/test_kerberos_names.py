"""Kerberos principals and sasl.kerberos.principal.to.local.rules, as Kafka reads and applies them."""

import pytest

from kavka.security.kerberos_names import KerberosName, NoShortName, ShortNames


def short(rules: str, principal: str, realm: str = "REALM") -> str:
    return ShortNames(rules.split(","), realm).of(KerberosName.parse(principal))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("alice@REALM", ("alice", None, "REALM")),
        ("kafka/host.example@REALM", ("kafka", "host.example", "REALM")),
        ("kafka/@REALM", ("kafka", "", "REALM")),
        ("alice@", ("alice", None, "")),
        ("@REALM", ("", None, "REALM")),
        ("alice", ("alice", None, None)),
        ("kafka/host", ("kafka/host", None, None)),
    ],
)
def test_a_principal_has_up_to_two_components_and_a_realm(text: str, name: tuple[str, str | None, str | None]) -> None:
    assert KerberosName.parse(text) == name
    assert str(KerberosName.parse(text)) == text


@pytest.mark.parametrize("text", ["a/b/c@REALM", "a@b@c", "a@b/c", "a\\/b@REALM", "a\\@OTHER@REALM", "a\\b"])
def test_a_principal_that_the_rules_could_misread_has_no_name(text: str) -> None:
    with pytest.raises(NoShortName, match="Malformed Kerberos name"):
        KerberosName.parse(text)


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        ("DEFAULT", "alice@REALM", "alice"),
        ("DEFAULT", "kafka/host@REALM", "kafka"),
        ("DEFAULT", "alice", "alice"),
        ("RULE:[1:$1]", "alice@OTHER", "alice"),
        ("RULE:[1:$1](.*)", "alice@OTHER", "alice"),
        ("RULE:[2:$1](johndoe)s/^.*$/guest/", "johndoe/x@R", "guest"),
        ("RULE:[2:$1;$2](^.*;admin$)s/;admin$//", "bob/admin@R", "bob"),
        ("RULE:[2:$2](root),DEFAULT", "alice/root@R", "root"),
        ("RULE:[2:$2](root),DEFAULT", "alice/other@REALM", "alice"),
        ("RULE:[1:$1@$0](.*@OTHER)s/@.*//,DEFAULT", "alice@OTHER", "alice"),
        ("RULE:[1:$1@$0](.*@OTHER)s/@.*//,DEFAULT", "alice@REALM", "alice"),
        ("RULE:[1:$1]/L", "Alice@R", "alice"),
        ("RULE:[1:$1]/U", "Alice@R", "ALICE"),
        ("RULE:[1:$1]U", "Alice@R", "ALICE"),
        ("RULE:[1:$1](Alice)s/l/L//L", "Alice@R", "alice"),
        ("RULE:[1:$1](.*)s/a/b/g/U", "banana@R", "BBNBNB"),
        ("RULE:[1:$1]s/a/b/", "banana@R", "bbnana"),
        ("RULE:[1:$1]s/a/b/g", "banana@R", "bbnbnb"),
        ("RULE:[1:$1]s/x*/-/g", "abxd@R", "-a-b--d-"),
        ("RULE:[1:x$1y$1]", "a@R", "xaya"),
        ("RULE:[1:]s/^$/guest/", "a@R", "guest"),
        ("RULE:[1:$1]s/(.)(.)/$2$1/", "ab@R", "ba"),
        ("RULE:[1:$1]s/(.)/$12/", "ab@R", "a2b"),
        ("RULE:[1:$1]s/(?<first>.)(x)?/${first}$2-/", "ab@R", "a-b"),
        ("RULE:[1:$1]s/a/\\$\\\\/", "a@R", "$\\"),
        ("RULE:[1:$01]", "a@R", "a"),
        ("RULE:[1:$1\\.$0](.*)s/\\\\.*//", "a@R", "a"),
    ],
)
def test_the_first_rule_that_fits_makes_the_name(rules: str, principal: str, name: str) -> None:
    assert short(rules, principal) == name


@pytest.mark.parametrize(
    ("rules", "principal", "why"),
    [
        ("DEFAULT", "alice@OTHER", "No rules apply to alice@OTHER, rules \\[DEFAULT\\]"),
        ("RULE:[2:$1]", "alice@REALM", "No rules apply"),
        ("RULE:[0:x]", "alice@REALM", "No rules apply"),
        ("RULE:[1:$1](b.*)", "ab@R", "No rules apply"),
        ("RULE:[1:$1@$0]", "alice@REALM", "Non-simple name alice@REALM after auth_to_local rule RULE"),
        ("RULE:[2:$1/$2],DEFAULT", "a/b@REALM", "Non-simple name a/b"),
        ("RULE:[1:$2]", "alice@R", "index 2 from \\$2 is outside of the valid range 0 to 1"),
        ("RULE:[1:$]", "alice@R", "bad format"),
        ("RULE:[1:$x]", "alice@R", "bad format"),
        ("RULE:[1:$1]s/a/$1/", "a@R", "Illegal group reference"),
        ("RULE:[1:$1]s/a/$/", "a@R", "Illegal group reference"),
        ("RULE:[1:$1]s/a/$x/", "a@R", "Illegal group reference"),
        ("RULE:[1:$1]s/a/${x}/", "a@R", "Illegal group reference"),
        ("RULE:[1:$1]s/a/b\\/", "a@R", "Illegal group reference"),
    ],
)
def test_where_no_rule_makes_a_name_there_is_none(rules: str, principal: str, why: str) -> None:
    with pytest.raises(NoShortName, match=why):
        short(rules, principal)


def test_a_rule_for_nobody_harms_nobody() -> None:
    assert short("RULE:[1:$1](nobody)s/nobody/$9/,DEFAULT", "alice@REALM") == "alice"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("default", "^Invalid rule: default$"),
        ("", "^Invalid rule: $"),
        ("DEFAULTL", "^Invalid rule: `DEFAULTL`, unmatched substring: `L`$"),
        ("RULE:[1:$1", "^Invalid rule: "),
        ("RULE:[1:$1]x", "unmatched substring: `x`"),
        ("RULE:[1:$1](.*)s/a/b", "unmatched substring: `s/a/b`"),
        ("RULE:[1:$1](.*)s/a/b/gg", "unmatched substring: `g`"),
        ("RULE:[1:$1](.*)/L/U", "unmatched substring: `/U`"),
        ("RULE:[1:$1](.*)/l", "unmatched substring: `l`"),
        ("RULE:[1:$1]((a))", "unmatched substring: `"),
        ("RULE:[:$1]", "of how many components"),
        ("RULE:[2147483648:$1]", "of how many components"),
        ("RULE:[a:$1]", "^Invalid rule: "),
        ("RULE:[1:$1]([)", "Invalid rule"),
        ("RULE:[1:$1]s/[/x/", "Invalid rule"),
        ("RULE:[\u0661:$1]", "^Invalid rule: "),
    ],
)
def test_a_malformed_rule_is_refused(rule: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        ShortNames([rule], "REALM")
