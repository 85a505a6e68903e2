"""`kavka console` with a certificate: what a browser gets over TLS, and nothing without it."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.kit.certificates import Authority
from tests.kit.console_process import ConsoleProcess


def test_a_console_with_a_certificate_speaks_tls_alone(tmp_path: Path) -> None:
    authority = Authority()
    file = authority.sign("console").write(tmp_path / "console.pem")
    settings = f'tls = {{ certificate = "{file}" }}\n[[cluster]]\nname = "none"\nbootstrap = "127.0.0.1:1"\n'
    with ConsoleProcess(settings, tmp_path / "console", scheme="https") as console:
        assert f"{console.address}/" in console.log
        trust = ssl.create_default_context(cadata=authority.certificate)
        with urllib.request.urlopen(f"{console.address}/", timeout=60, context=trust) as page:
            assert page.status == 200
            assert "; Secure" in page.headers["set-cookie"]
        with pytest.raises((urllib.error.URLError, ConnectionError)):
            urllib.request.urlopen(console.address.replace("https", "http"), timeout=60)
    assert console.failures == []
