"""`kavka up --schema-registry`: beside the brokers, as safe as they are, and gone when they are."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.kit.command_server import PROGRAM
from tests.kit.ports import free_port


@pytest.mark.parametrize("secure", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_it_comes_and_goes_with_the_brokers(tmp_path: Path, secure: bool) -> None:
    data = tmp_path / "data"
    words = [str(PROGRAM), "up", "--schema-registry", "--no-console", "--json", "--port", str(free_port())]
    words += ["--data", str(data), *(["--secure"] if secure else [])]
    # From nothing: the registry is told of the end of this process by a pipe.
    up = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert up.stdout is not None
        found = next(each for line in up.stdout if (each := json.loads(line))["event"] == "schema registry")
        address = found["address"]
        context, headers = None, {}
        if secure:
            assert address.startswith("https://")
            context = ssl.create_default_context(cafile=str(next((data / "security").glob("ca*.pem"))))
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{address}/subjects", timeout=60, context=context)
            assert refused.value.code == 401
            refused.value.close()
            password = (data / "security" / "admin.password").read_text().strip()
            headers["Authorization"] = "Basic " + base64.b64encode(f"admin:{password}".encode()).decode()
        request = urllib.request.Request(
            f"{address}/subjects/s/versions", b'{"schema": "\\"int\\""}', headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            assert json.loads(answer.read())["id"] == 1
    finally:
        os.kill(up.pid, signal.SIGKILL)
        up.wait()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{address}/subjects", timeout=5, context=context).close()
        except urllib.error.HTTPError as problem:
            problem.close()
        except OSError:
            return
        time.sleep(0.2)
    pytest.fail(f"{address} still answers")
