"""What a failed command says to do next."""

from __future__ import annotations

import pytest

from kavka.cli.app import app
from kavka.cli.help import ClickException, failure_of
from kavka.cli.output import explain
from kavka.client.cluster import NoBrokerAnswers
from kavka.errors import ConnectionFailed, ErrorCode, NotTrusted, RequestError


@pytest.mark.parametrize(
    ("code", "problem", "next_step"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "you may not do this to the topic", "`kavka why denied`"),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "you may not do this to the group", "`kavka why denied`"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "you may not do this to the cluster", "`kavka why denied`"),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, "SASL_AUTHENTICATION_FAILED", "--client-config"),
        (ErrorCode.SECURITY_DISABLED, "SECURITY_DISABLED", "authorizer.class.name"),
        (ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "there is no such transactional id", "`kavka transactions list`"),
        (ErrorCode.FEATURE_UPDATE_FAILED, "FEATURE_UPDATE_FAILED", "`kavka features describe`"),
        (ErrorCode.INVALID_REPLICATION_FACTOR, "INVALID_REPLICATION_FACTOR", "`kavka topics create TOPIC -r N`"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "not a name for a topic", "at most 249 letters"),
    ],
)
def test_a_refusal_says_what_to_do_next(code: ErrorCode, problem: str, next_step: str) -> None:
    failure = explain(RequestError(code, f"something: {code.name}"), "host:9092")
    assert problem in failure.problem
    assert next_step in failure.next_step


def test_a_listener_that_closes_the_connection_may_want_a_login() -> None:
    failure = explain(ConnectionFailed("host:9092 closed the connection"), "host:9092")
    assert "--client-config FILE" in failure.next_step
    refused = explain(ConnectionFailed("host:9092 refused the connection"), "host:9092")
    assert "is a broker running at host:9092?" in refused.next_step


def test_a_certificate_that_is_not_trusted_points_at_its_authority() -> None:
    untrusted = NotTrusted("the certificate of host:9093 cannot be verified: self-signed certificate")
    assert NoBrokerAnswers([untrusted]).is_final
    for error in (untrusted, NoBrokerAnswers([untrusted])):
        assert "ssl.truststore.location" in explain(error, "host:9093").next_step


@pytest.mark.parametrize(
    "problem",
    [
        "no broker answers: the connection to host:22 broke: Connection reset by peer",
        "no broker answers: host:22 did not answer ApiVersions within 3000 ms",
    ],
)
def test_what_listens_but_does_not_answer_may_be_another_program_or_want_tls(problem: str) -> None:
    failure = explain(ConnectionFailed(problem), "host:22")
    assert "is host:22 a Kafka broker's port?" in failure.next_step
    assert "--client-config FILE" in failure.next_step


def test_the_first_word_of_a_command_is_enough_for_a_suggestion() -> None:
    with pytest.raises(ClickException, match=r"No such command 'reset'\. Did you mean 'reset-offsets'\?"):
        app(args=["groups", "reset", "readers"], prog_name="kavka", standalone_mode=False)
    with pytest.raises(ClickException, match=r"Did you mean 'delete'\?"):
        app(args=["groups", "delte"], prog_name="kavka", standalone_mode=False)


def test_an_option_without_its_value_names_the_help_of_its_command() -> None:
    with pytest.raises(ClickException) as wrong:
        app(args=["console", "-b"], prog_name="kavka", standalone_mode=False)
    assert "`kavka console --help`" in failure_of(wrong.value, "kavka console").next_step
