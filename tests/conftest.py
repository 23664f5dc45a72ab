"""Every test has a HEADVIZ_HOME of its own and no network: a name look-up or a connection beyond this machine fails."""

import os
import signal
import socket
import sys

import pytest

# Before anything imports a hub client: nothing in the tests may wait for a network that is not there.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

_LOCAL = {"localhost", "127.0.0.1", "::1", "0.0.0.0", "", None}


@pytest.fixture(autouse=True)
def home(tmp_path_factory, monkeypatch):
    """A fresh HEADVIZ_HOME, and settings read anew."""
    from headviz.settings import settings

    folder = tmp_path_factory.mktemp("home")
    for name in [name for name in os.environ if name.startswith("HEADVIZ_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HEADVIZ_HOME", str(folder))
    settings.cache_clear()
    yield folder
    end_workers()
    settings.cache_clear()


def end_workers() -> None:
    """End what the test's jobs started: a worker outlives whoever asked, and would compute beside all tests that follow."""
    if (lane := sys.modules.get("headviz.jobs.lane")) is None:
        return  # nobody started any
    for worker in lane._children:
        lane.send(worker.pid, signal.SIGKILL, group=True)
    lane.reap(10)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    look_up, connect = socket.getaddrinfo, socket.socket.connect

    def guarded_look_up(host, *rest, **options):
        name = host.decode() if isinstance(host, bytes) else host
        if name not in _LOCAL:
            raise AssertionError(f"a test looked up the name {name!r}")
        return look_up(host, *rest, **options)

    def guarded_connect(self, address):
        if isinstance(address, tuple) and address[0] not in _LOCAL:
            raise AssertionError(f"a test connected to {address!r}")
        return connect(self, address)

    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)
    monkeypatch.setattr(socket.socket, "connect", guarded_connect)
