"""A real dashboard in its own process, and how a browser is started beside it: for tests/e2e and tests/bench."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Without these the browser itself looks names up, which the closed network of a test machine refuses.
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return probe.getsockname()[1]


class Server:
    """`streamlit run app.py` as `make run` starts it, with a HEADVIZ_HOME of its own."""

    def __init__(self, home: Path, log: Path, app: Path = ROOT / "app.py") -> None:
        self.home, self.log, self.app, self.port = home, log, app, free_port()
        self.url = f"http://localhost:{self.port}"
        self.process = None

    def start(self) -> float:
        """Seconds from start until the health check answers."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith("HEADVIZ_")}
        begun = time.monotonic()
        with self.log.open("ab") as out:  # a file: a pipe that nobody reads fills up and stops the server
            self.process = subprocess.Popen(
                [sys.executable, "-m", "streamlit", "run", str(self.app), "--server.port", str(self.port)],
                cwd=ROOT,
                env=environ | {"HEADVIZ_HOME": str(self.home), "HEADVIZ_IDLE_MINUTES": "1"},
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        while time.monotonic() - begun < 60:
            try:
                urllib.request.urlopen(f"{self.url}/_stcore/health", timeout=1).close()
                return time.monotonic() - begun
            except OSError:
                time.sleep(0.1)
        raise RuntimeError(f"the server did not start:\n{self.log.read_text()[-2000:]}")

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(10)
            self.process = None

    def worker_pids(self) -> list[int]:
        found = []
        for process in psutil.process_iter(["cmdline"]):
            try:
                line = " ".join(process.info["cmdline"] or [])
                if "headviz.jobs.worker" in line and process.environ().get("HEADVIZ_HOME") == str(self.home):
                    found.append(process.pid)
            except (psutil.AccessDenied, psutil.NoSuchProcess):
                continue
        return found

    def stop_workers(self) -> None:
        for pid in self.worker_pids():
            os.kill(pid, signal.SIGKILL)
