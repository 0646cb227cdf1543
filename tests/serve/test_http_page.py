"""docs/reference/http.md: every curl line works."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from onlinehash import LiveIndex
from onlinehash.serve import server
from onlinehash.serve.demo import digits_service
from onlinehash.serve.pictures import parse
from onlinehash.serve.service import Service
from tests.needs import missing

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "http.md").read_text()
LINES = [
    line
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    for line in re.findall(r"^\$ (.*)$", block, flags=re.MULTILINE)
]
ASKED = [line for line in LINES if re.match("curl .*(8000|8001|8002)|python -c", line) and "192.0.2.1" not in line]
JSON_NOT_EXPECTED = ("--output", "/metrics", "/events", "python -c")


def test_every_line_works(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        missing("curl")
    assert len(ASKED) > 40
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    # As `onlinehash serve` does it with the options on the page.
    service = Service(LiveIndex(n_bits=16), label="colour", pictures=parse("2x2"))
    service.compare_methods()
    texts = Service(LiveIndex(embed="lexical"))
    with (
        server.background(service) as url,
        server.background(digits_service()) as demo,
        server.background(texts) as texts_url,
    ):
        for line in ASKED:
            local = line
            for port, there in (("8000", url), ("8001", demo), ("8002", texts_url)):
                local = local.replace(f"127.0.0.1:{port}", there.removeprefix("http://"))
            local = local.replace("curl ", "curl --silent --show-error --fail-with-body ", 1)
            done = subprocess.run(
                ["bash", "-c", local], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            if not any(word in line for word in JSON_NOT_EXPECTED):
                assert isinstance(json.loads(done.stdout), dict), line
            if "/events" in line:
                assert done.stdout.startswith("event: hello\ndata: {"), done.stdout
