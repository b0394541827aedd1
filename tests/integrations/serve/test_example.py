"""The example of docs/serve.md, as it stands: a stream is begun, a token made, and curl sends two events."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).parents[3] / "docs" / "serve.md").read_text()


def test_curl_sends_events_as_the_page_shows(tmp_path):
    """Only the port is another one, and the command is that of this interpreter."""
    section = PAGE[PAGE.index("## Events over HTTP") :]
    commands = "\n".join(line.strip() for line in re.search(r"\n\n((?:    .*\n)+)", section)[1].splitlines())
    before, serve = commands.rsplit("\n", 1)
    events, curl = re.search(r"```sh\n(.*?)```", section, re.S)[1].split("\n", 1)
    shown = json.loads(re.search(r"\n    (\{.*\})\n", section)[1])
    (tmp_path / "dpstream").write_text(f'#!/bin/sh\nexec {sys.executable} -m dpstream "$@"\n')
    (tmp_path / "dpstream").chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def run(text):
        return subprocess.run(  # noqa: S603 - what the page says
            ["/bin/sh", "-ec", text],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout

    assert run(before) == ""  # no steps of months ago
    run(events)
    server = subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-ec", f"exec {serve} --port 0"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        address = re.match(r"http://[^/]*", server.stdout.readline())[0]
        sent = curl.replace("http://127.0.0.1:8080", address)
        assert json.loads(run(sent)) == shown
        assert json.loads(run(sent)) == {"repeated": True, "rows": 2}
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=60)
