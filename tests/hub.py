"""A model hub in memory, behind the real client: it answers the HTTP requests of huggingface_hub from folders.

What the hub's errors look like on the wire (status, X-Error-Code) is simulated here, so that the client's own code
turns them into its exceptions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMIT = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d"
_PREFIX = "/api/models/"


class FakeHub:
    """Repositories by id, each a folder; `refuse` answers instead where it returns (status, headers) or raises.

    requests: (method, path) of everything that was asked
    """

    def __init__(self) -> None:
        self.repositories: dict[str, Path] = {}
        self.refuse: Callable[[str, str], tuple[int, dict[str, str]] | None] = lambda method, path: None
        self.requests: list[tuple[str, str]] = []

    def answer(self, request: Any) -> Any:
        import httpx2

        path = request.url.path
        self.requests.append((request.method, path))
        if refusal := self.refuse(request.method, path):
            return httpx2.Response(refusal[0], headers=refusal[1], request=request)
        if path.startswith(_PREFIX):
            name, _, revision = path.removeprefix(_PREFIX).partition("/revision/")
            return self._info(name, revision, request)
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        return self._file(name, rest.partition("/")[2], request)

    def _info(self, name: str, revision: str, request: Any) -> Any:
        import httpx2

        if name not in self.repositories:
            return httpx2.Response(401, headers={"X-Error-Code": "RepoNotFound"}, request=request)
        if revision not in ("", "main", COMMIT):
            return httpx2.Response(404, headers={"X-Error-Code": "RevisionNotFound"}, request=request)
        files = [
            {"rfilename": path.name, "size": path.stat().st_size}
            for path in self.repositories[name].iterdir()
        ]
        return httpx2.Response(200, json={"id": name, "sha": COMMIT, "siblings": files}, request=request)

    def _file(self, name: str, file: str, request: Any) -> Any:
        import httpx2

        path = self.repositories[name] / file
        if not path.is_file():
            return httpx2.Response(404, headers={"X-Error-Code": "EntryNotFound"}, request=request)
        content = path.read_bytes()
        headers = {
            "X-Repo-Commit": COMMIT,
            "ETag": f'"{hashlib.sha256(content).hexdigest()}"',
            "Content-Length": str(len(content)),
        }
        body = b"" if request.method == "HEAD" else content
        return httpx2.Response(200, headers=headers, content=body, request=request)


@contextmanager
def connected(cache: Path, monkeypatch: Any) -> Iterator[FakeHub]:
    """The client talks to a fresh FakeHub, and its cache is `cache`."""
    import httpx2
    from huggingface_hub import constants, set_client_factory
    from huggingface_hub.utils import _http

    hub = FakeHub()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    before = _http._GLOBAL_CLIENT_FACTORY
    hooks = {"request": [_http.hf_request_event_hook]}  # the client's own: HF_HUB_OFFLINE acts there
    set_client_factory(lambda: httpx2.Client(transport=httpx2.MockTransport(hub.answer), event_hooks=hooks))
    monkeypatch.setattr(_http.time, "sleep", lambda seconds: None)  # between its tries
    try:
        yield hub
    finally:
        set_client_factory(before)
