"""`headviz serve`: the dashboard, once its port is known to be free."""

from __future__ import annotations

import argparse
import errno
import os
import socket
import sys
from pathlib import Path

from headviz.errors import BadInput


def options(to: argparse.ArgumentParser) -> None:
    to.add_argument("--host", default="localhost", help="address to listen on (default: this machine only)")
    to.add_argument("--port", type=int, default=8501, help="port to listen on, 1 to 65535 (default 8501)")


def run(args: argparse.Namespace) -> int:
    """Start the dashboard."""
    check_port(args.host, args.port)
    root = Path(__file__).parents[2]
    print(f"headviz: http://{args.host}:{args.port}", flush=True)
    command = [sys.executable, "-m", "streamlit", "run", str(root / "app.py")]
    os.chdir(root)  # streamlit reads .streamlit/config.toml from where it starts
    os.execv(sys.executable, [*command, "--server.address", args.host, "--server.port", str(args.port)])


def check_port(host: str, port: int) -> None:
    """Whether a server can listen there now. Raises BadInput."""
    if not 1 <= port <= 65535:
        raise BadInput(f"--port is {port}; it must be a whole number from 1 to 65535.")
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise BadInput(
            f"--host {host!r} is no address that this machine knows. Give localhost, or 0.0.0.0 for all."
        ) from None
    problems = [_problem(family, address) for family, _, _, _, address in places]
    if errno.EADDRINUSE in problems:
        raise BadInput(
            f"Port {port} of {host} is taken by another program. Choose another one: --port {_near(port)}."
        )
    if errno.EACCES in problems:
        raise BadInput(
            f"Port {port} is kept for the system's own programs. Choose one from 1024 on, such as 8501."
        )
    if all(problems):  # one of several addresses is enough: many machines have no IPv6
        raise BadInput(
            f"--host {host!r} is not an address of this machine. Give localhost, or 0.0.0.0 for all."
        )


def _problem(family: int, address: tuple) -> int:
    """errno of listening there, 0 where it works."""
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            if family == socket.AF_INET6:
                trial.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            trial.bind(address)
            trial.listen(1)
    except OSError as error:
        return error.errno or errno.EINVAL
    return 0


def _near(port: int) -> int:
    return port + 1 if port < 65535 else port - 1
