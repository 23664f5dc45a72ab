"""The hub: real code of `datasets` over a local folder, and errors raised by the client as it raises them."""

import json
from types import SimpleNamespace

import httpx2
import huggingface_hub
import pytest
from huggingface_hub import errors

from headviz.data import hub
from headviz.data.corpora import read_documents, resolve
from headviz.errors import BadData, Cancelled, GatedModel, Unreachable
from headviz.settings import Settings
from headviz.types import Silent

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path / "home")


@pytest.fixture
def client(monkeypatch):
    """Answer or refuse `HfApi().dataset_info`; what it was asked for is in the list."""
    asked = []

    def put(answer):
        def dataset_info(self, repo_id, *, revision=None, timeout=None):
            asked.append((repo_id, revision))
            assert timeout
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(sha=answer)

        monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", dataset_info)
        return asked

    return put


@pytest.fixture
def on_hub(tmp_path, monkeypatch):
    """A folder that `datasets.load_dataset` reads when it is asked for owner/name; calls are in the list."""
    import datasets

    folder, calls, real = tmp_path / "repository", [], datasets.load_dataset
    folder.mkdir()

    def load_dataset(path, name=None, **options):
        calls.append((path, name, options))
        assert options["streaming"]
        assert "trust_remote_code" not in options
        return real(str(folder), name, split=options["split"], streaming=True)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return SimpleNamespace(folder=folder, calls=calls)


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def refused(status, kind=errors.HfHubHTTPError, message="refused"):
    request = httpx2.Request("GET", "https://huggingface.co/api/datasets/owner/name")
    return kind(message, response=httpx2.Response(status, request=request))


def rows(on_hub, config="", split="train", columns=("text",), watch=None):
    return list(hub.rows("owner/name", config, split, columns, COMMIT, watch or Silent()))


def test_a_revision_becomes_a_commit(client, settings):
    asked = client(COMMIT)
    ref = resolve("hub", dataset="owner/name", revision="v1", split="test", settings=settings)
    assert (ref.revision, ref.split, ref.column, ref.part) == (COMMIT, "test", "text", "all")
    assert resolve("fineweb-edu", settings=settings).revision == COMMIT
    assert asked == [("owner/name", "v1"), ("HuggingFaceFW/fineweb-edu", None)]


def test_a_commit_needs_no_network(settings):
    assert resolve("c4", revision=COMMIT, settings=settings).revision == COMMIT


def test_rows_are_streamed_at_the_commit_and_only_as_needed(on_hub, settings):
    write(on_hub.folder / "validation.jsonl", [{"text": f"document {n}", "n": n} for n in range(1000)])
    (on_hub.folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: en\n  data_files:\n  - split: validation\n    path: validation.jsonl\n---\n"
    )
    ref = resolve("c4", revision=COMMIT, inputs=2, settings=settings)
    steps = []

    class Steps(Silent):
        def step(self, doing, done=0, total=0, unit=""):
            steps.append((done, total))

    found = list(read_documents(ref, settings, Steps()))
    assert [document.text for document in found] == [f"document {n}" for n in range(256)]
    assert found[3].name == "c4/validation/3"
    path, name, options = on_hub.calls[0]
    assert (path, name, options["split"], options["revision"]) == ("allenai/c4", "en", "validation", COMMIT)
    assert (250, 256) in steps


def test_a_cancel_is_heard_between_rows(on_hub):
    write(on_hub.folder / "train.jsonl", [{"text": "a"}] * 3)

    class Stop(Silent):
        checks = 0

        def check(self):
            self.checks += 1
            if self.checks > 2:
                raise Cancelled("stop")

    with pytest.raises(Cancelled):
        rows(on_hub, watch=Stop())


def test_what_does_not_exist_is_listed(on_hub):
    write(on_hub.folder / "train.jsonl", [{"text": "a", "n": 1}])
    write(on_hub.folder / "test.jsonl", [{"text": "b", "n": 1}])
    with pytest.raises(BadData, match=r"no configuration 'x'. It has: default"):
        rows(on_hub, config="x")
    with pytest.raises(BadData, match=r"no split 'x'. It has: train, test"):
        rows(on_hub, split="x")
    with pytest.raises(BadData, match=r"no column 'x'. Its columns: text, n"):
        rows(on_hub, columns=("x",))
    (on_hub.folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: a\n  data_files: train.jsonl\n- config_name: b\n  data_files: test.jsonl\n---\n"
    )
    with pytest.raises(BadData, match=r"needs a configuration. It has: a, b"):
        rows(on_hub)
    assert rows(on_hub, config="b") == [{"text": "b", "n": 1}]


def test_nothing_to_read_and_a_script(on_hub):
    with pytest.raises(BadData, match="no data files"):
        rows(on_hub)
    (on_hub.folder / "repository.py").write_text("raise SystemExit")
    with pytest.raises(BadData, match="runs nobody's code"):
        rows(on_hub)


REFUSALS = [
    (refused(404, errors.RepositoryNotFoundError), BadData, "no data set 'owner/name'"),
    (refused(401, errors.RepositoryNotFoundError), BadData, "or it is private"),
    (refused(404, errors.RevisionNotFoundError), BadData, "no revision 'v9'"),
    (refused(403, errors.GatedRepoError), GatedModel, "accept its terms"),
    (refused(500), Unreachable, "does not answer"),
    (refused(429), Unreachable, "does not answer"),
    (refused(418, message="I am a teapot"), BadData, "HfHubHTTPError: I am a teapot"),
    (errors.OfflineModeIsEnabled("offline"), Unreachable, "HEADVIZ_DATA"),
    (httpx2.ConnectError("Name or service not known"), Unreachable, "choose docstrings"),
    (httpx2.ReadTimeout("slow"), Unreachable, "does not answer"),
]


@pytest.mark.parametrize(("error", "kind", "says"), REFUSALS, ids=[says for *_, says in REFUSALS])
def test_the_clients_errors_are_sentences(error, kind, says, client, settings):
    client(error)
    with pytest.raises(kind, match=says) as caught:
        resolve("hub", dataset="owner/name", revision="v9", settings=settings)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        ("Dataset 'owner/name' is a gated dataset on the Hub.", GatedModel, "gated"),
        ("Revision 'x' doesn't exist for dataset 'owner/name' on the Hub.", BadData, "no revision"),
        (
            "Dataset 'owner/name' doesn't exist on the Hub or cannot be accessed.",
            BadData,
            "There is no data set",
        ),
    ],
)
def test_the_readers_errors_are_sentences(error, kind, says, monkeypatch):
    import datasets

    def load_dataset(*rest, **options):
        raise datasets.exceptions.DatasetNotFoundError(error)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(kind, match=says):
        rows(None)


def test_a_connection_that_breaks_while_reading(monkeypatch):
    import datasets

    def stream():
        yield {"text": "a"}
        raise httpx2.ReadError("reset")

    monkeypatch.setattr(datasets, "load_dataset", lambda *rest, **options: stream())
    found = hub.rows("owner/name", "", "train", ("text",), COMMIT, Silent())
    assert next(found) == {"text": "a"}
    with pytest.raises(Unreachable, match="does not answer"):
        next(found)
