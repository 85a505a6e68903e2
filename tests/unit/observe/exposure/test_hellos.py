"""Hellos by hand against OpenSSL as the server, over memory: each version and suite it has is seen, and no other."""

from __future__ import annotations

import ssl
from pathlib import Path
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kavka.observe.exposure.tls_hellos import Answer, Version, hello, read_answer
from kavka.observe.exposure.tls_suites import NEWEST, OLDER, is_broken, keeps_no_secret
from kavka.security.tls_records import NotTls
from tests.kit.certificates import Authority

RANDOM = bytes(range(96))


@pytest.fixture(scope="module")
def key_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Authority().sign("server").write(tmp_path_factory.mktemp("hellos") / "server.pem")


def answer_of(context: ssl.SSLContext, version: Version, suites: list[int], host: str = "localhost") -> Answer:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    incoming.write(hello(version, suites, host, RANDOM))
    try:
        server.do_handshake()
    except ssl.SSLWantReadError:
        pass
    except ssl.SSLError:
        pass  # Its alert is the answer.
    return read_answer(outgoing.read())


def server_context(key_store: Path, lowest: ssl.TLSVersion, highest: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(key_store)
    context.minimum_version, context.maximum_version = lowest, highest
    return context


def test_versions_are_those_that_the_server_has(key_store: Path) -> None:
    context = server_context(key_store, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    seen = {
        version: answer_of(context, version, list(NEWEST if version is Version.TLS_1_3 else OLDER)).version == version
        for version in Version
    }
    assert seen == {Version.TLS_1_0: False, Version.TLS_1_1: False, Version.TLS_1_2: True, Version.TLS_1_3: True}


def test_suites_certificate_and_request_of_tls_1_2_are_read(key_store: Path) -> None:
    context = server_context(key_store, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-SHA384")
    found, left = [], list(OLDER)
    while (answer := answer_of(context, Version.TLS_1_2, left)).suite:
        assert answer.is_whole
        found.append(OLDER[answer.suite])
        left.remove(answer.suite)
    assert sorted(found) == [
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384",
    ]
    answer = answer_of(context, Version.TLS_1_2, list(OLDER))
    assert not answer.asks_for_certificate
    assert ssl.DER_cert_to_PEM_cert(answer.chain[0]).strip() in key_store.read_text()
    context.load_verify_locations(cadata=Authority().certificate)
    context.verify_mode = ssl.CERT_OPTIONAL
    assert answer_of(context, Version.TLS_1_2, list(OLDER)).asks_for_certificate


def test_a_name_is_asked_for_and_an_address_is_not(key_store: Path) -> None:
    context = server_context(key_store, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    asked: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    answer_of(context, Version.TLS_1_3, list(NEWEST), "broker.example.com")
    answer_of(context, Version.TLS_1_3, list(NEWEST), "127.0.0.1")
    assert asked == ["broker.example.com", None]


def test_an_alert_is_a_whole_answer_that_offers_nothing() -> None:
    assert read_answer(b"\x15\x03\x03\x00\x02\x02\x28") == Answer(is_whole=True)


def test_what_is_not_tls_is_told() -> None:
    with pytest.raises(NotTls):
        read_answer(b"HTTP/1.1 400 Bad Request\r\n")


@given(st.binary(max_size=400), st.integers(0, 255))
def test_whatever_comes_is_an_answer_or_no_tls(content: bytes, kind: int) -> None:
    for data in (content, pack(">BHH", 22, 0x0303, len(content) + 4) + bytes([kind, 0, 0]) + content[:1] + content):
        try:
            read_answer(data)
        except NotTls:
            continue


@given(st.binary(max_size=300))
def test_a_server_hello_of_any_bytes_is_an_answer_or_no_tls(body: bytes) -> None:
    message = b"\x02" + len(body).to_bytes(3, "big") + body
    try:
        read_answer(pack(">BHH", 22, 0x0303, len(message)) + message)
    except NotTls:
        return


def test_numbers_and_names_of_suites_are_those_of_openssl() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    theirs = {each["id"] & 0xFFFF: each["name"] for each in context.get_ciphers()}
    both = {**OLDER, **NEWEST}
    assert theirs.keys() & both.keys()
    for number in theirs.keys() & both.keys():
        words = both[number].replace("TLS_", "").replace("_WITH_", "_").split("_")
        told = theirs[number].replace("-", "").replace("_", "").upper()
        for word in words:
            if word not in (
                "RSA",
                "CBC",
                "EDE",
                "DH",
                "ECDH",
                "anon",
                "128",
                "256",
                "3DES",
                "POLY1305",
                "SHA256",
                "DHE",
            ):
                assert word.upper() in told, (both[number], theirs[number])


def test_what_is_broken_and_what_keeps_no_secret() -> None:
    assert is_broken("TLS_RSA_WITH_3DES_EDE_CBC_SHA")
    assert is_broken("TLS_ECDHE_RSA_WITH_NULL_SHA")
    assert not is_broken("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    assert keeps_no_secret("TLS_RSA_WITH_AES_128_GCM_SHA256")
    assert not keeps_no_secret("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
