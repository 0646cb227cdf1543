"""The nginx configuration of docs/how-to/secure.md lets a service be reached, as that page says."""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from onlinehash.serve import server
from onlinehash.serve.service import Service
from onlinehash.serve.settings import Access
from tests.needs import missing
from tests.serve.services import SECONDS, small_index
from tests.servers import free_port

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "secure.md"
HOST = "search.example.org"
TOKEN = "a-token-of-the-tests"
#: What an ordinary user's nginx needs around the configuration of the page.
AROUND = """daemon off; master_process off; pid pid; error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path a; proxy_temp_path b; fastcgi_temp_path c; uwsgi_temp_path d; scgi_temp_path e;
    {}
}}
"""


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[httpx.Client]:
    """A client of a service behind nginx, which has a certificate for the host of the page."""
    port = free_port()
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if nginx is None or shutil.which("openssl") is None:
        missing("nginx" if nginx is None else "openssl")
    certificate = tmp_path / "certificate.pem"
    names = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [*new, "-keyout", tmp_path / "key.pem", "-out", certificate, *names], check=True, capture_output=True
    )
    block = re.search(r"```nginx\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert block is not None
    with server.background(Service(small_index()), Access(token=TOKEN, hosts=(HOST,))) as url:
        text = block[1]
        for old, new_text in (
            ("443 ssl", f"127.0.0.1:{port} ssl"),
            (f"/etc/ssl/{HOST}.pem", str(certificate)),
            (f"/etc/ssl/{HOST}.key", str(tmp_path / "key.pem")),
            ("http://127.0.0.1:8000", url),
        ):
            assert old in text
            text = text.replace(old, new_text)
        (tmp_path / "nginx.conf").write_text(AROUND.format(text))
        process = subprocess.Popen([nginx, "-p", tmp_path, "-e", "stderr", "-c", "nginx.conf"])
        trust = ssl.create_default_context(cafile=str(certificate))
        base = f"https://127.0.0.1:{port}"
        try:
            with httpx.Client(base_url=base, verify=trust, timeout=SECONDS, headers={"host": HOST}) as client:
                wait_for(client)
                yield client
        finally:
            process.terminate()
            process.wait(SECONDS)


def wait_for(client: httpx.Client) -> None:
    until = time.monotonic() + SECONDS
    while True:
        try:
            ask(client, "GET", "/v1/health", token=None)
        except httpx.ConnectError:
            assert time.monotonic() < until
            time.sleep(0.05)
        else:
            return


def ask(client: httpx.Client, method: str, path: str, token: str | None = TOKEN, **more: Any) -> httpx.Response:
    """A request as one from another machine, which knows the proxy by its name."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return client.request(
        method, path, extensions={"sni_hostname": HOST}, **more | {"headers": headers | more.get("headers", {})}
    )


def test_a_service_is_reached_through_the_proxy_of_the_page(proxy: httpx.Client) -> None:
    assert ask(proxy, "GET", "/v1/health", token=None).status_code == 200
    assert ask(proxy, "GET", "/v1/stats", token=None).status_code == 401
    assert ask(proxy, "GET", "/v1/stats").json()["n"] == 12
    assert ask(proxy, "GET", "/v1/stats", headers={"host": "elsewhere.example.org"}).status_code == 403
    # the page's own requests name the host that the browser knows, and those of other pages theirs
    body = {"ids": [1], "payloads": [{"colour": "blue"}]}
    for origin, status in ((f"https://{HOST}", 200), ("https://elsewhere.org", 403)):
        assert ask(proxy, "PATCH", "/v1/items", headers={"origin": origin}, json=body).status_code == status
    # more than the megabyte that nginx lets through by itself; the service says what is wrong with it
    large = ask(
        proxy, "POST", "/v1/find", content=b"[" + b" " * (2 << 20), headers={"content-type": "application/json"}
    )
    assert "error" in large.json()
    # events come one by one, not when a buffer is full
    names = {"sni_hostname": HOST}
    with proxy.stream("GET", "/events", headers={"authorization": f"Bearer {TOKEN}"}, extensions=names) as events:
        assert next(events.iter_lines()) == "event: hello"
