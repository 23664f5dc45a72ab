"""A result comes back from its bytes as it was, and nothing else is ever taken for one."""

import dataclasses
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load, save

from headviz.codec import pack, unpack
from headviz.errors import CorruptResult
from headviz.types import SavedFile
from tests.repairs import repair_report
from tests.unit.samples import GEOMETRY, head_pattern, provenance, score_table


def same(a, b) -> bool:
    """Equal in every field: types, dtypes, shapes and bits (NaN equals NaN)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


ALIBI = dataclasses.replace(GEOMETRY, slopes=(0.5, 0.25, 0.125))
CASES = {
    "table": score_table(),
    "repair": dataclasses.replace(
        repair_report(), files=(SavedFile(name="repair-0-1.safetensors", sha256="e" * 64, bytes=1234),)
    ),
    "repair without runs": dataclasses.replace(repair_report(), runs=(), tests=()),
    "pattern": head_pattern(),
    "no inputs": score_table(N=0),
    "no tokens": head_pattern(T=0),
    "scalar": score_table(values=np.array(2.5)),
    "not a number": score_table(values=np.full((2, 2, 2, 3), np.nan, np.float32)),
    "transposed": head_pattern(attention=np.arange(9, dtype=np.float32).reshape(3, 3).T),
    "float64": head_pattern(entropy=np.arange(4.0)),
    "uint8": head_pattern(entropy=np.arange(4, dtype=np.uint8)),
    "int64": head_pattern(entropy=np.arange(4)),
    "slopes": score_table(geometry=ALIBI),
    "whole number as a float": score_table(provenance=dataclasses.replace(provenance(), seconds=3.0)),
    "nested request": score_table(
        provenance=dataclasses.replace(provenance(), request={"a": [1, {"b": None}], "x": True})
    ),
    "strings": head_pattern(pieces=("", "\x00", '"', "\\", "\ud800", "\u2028", "😀", "\n"), document="'\""),
}


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name):
    assert same(unpack(pack(CASES[name])), CASES[name])


def test_same_bytes_each_time():
    assert pack(score_table()) == pack(score_table())


def test_any_safetensors_reader_can_open_it():
    assert load(pack(score_table()))["ScoreTable.values"].shape == (2, 2, 2, 3)


def test_arrays_are_read_only():
    values = unpack(pack(score_table())).values
    with pytest.raises(ValueError):
        values[0] = 1
    assert not values.flags.writeable


def test_big_endian_comes_back_native():
    back = unpack(pack(head_pattern(sink=np.arange(4, dtype=">f4")))).sink
    assert back.dtype == np.float32
    assert back.tolist() == [0, 1, 2, 3]


def test_pack_leaves_the_result_alone():
    table = score_table()
    pack(table)
    assert same(table, score_table())


@pytest.mark.parametrize(
    "wrong",
    [
        {"metrics": ("a",)},  # not a result at all
        score_table(values=np.array(["text"])),
        score_table(values=np.zeros(2, np.complex64)),
        score_table(values=np.array([object()])),
        score_table(reasons={1: "a number as a key"}),
        score_table(reasons={"a": object()}),
    ],
)
def test_pack_refuses_what_is_no_result(wrong):
    with pytest.raises(TypeError):
        pack(wrong)


def test_no_byte_can_change_unseen():
    """Flip each byte in turn: refused, or (in the padding) the very same result."""
    good = head_pattern(T=2)
    blob = pack(good)
    unseen = 0
    for place in range(len(blob)):
        damaged = bytearray(blob)
        damaged[place] ^= 0x10
        try:
            assert same(unpack(bytes(damaged)), good)
            unseen += 1
        except CorruptResult:
            pass
    assert unseen < 10


@pytest.mark.parametrize("cut", [0, 1, 7, 8, 9, 100, -1])
def test_a_torn_file_is_refused(cut):
    with pytest.raises(CorruptResult):
        unpack(pack(score_table())[:cut])


def forged(**changes) -> bytes:
    """A file with a right checksum around wrong content."""
    from headviz.codec import FORMAT, _checksum

    blob = pack(score_table())
    arrays = dict(load(blob))
    header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
    note = json.loads(header["__metadata__"]["headviz"])
    tree = json.loads(note["tree"])
    name = changes.pop("type", "ScoreTable")
    arrays |= changes.pop("arrays", {})
    for gone in changes.pop("without", ()):
        arrays.pop(gone, None)
        tree.pop(gone, None)
    tree |= changes
    text = json.dumps(tree)
    note = {"format": FORMAT, "sha256": _checksum(name, text, arrays), "type": name, "tree": text}
    return save(arrays, metadata={"headviz": json.dumps(note)})


def test_forged_is_a_fair_forgery():
    assert same(unpack(forged()), score_table())


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "HeadPattern"},
        {"type": "Provenance"},
        {"type": "os.system"},
        {"metrics": "awft"},
        {"metrics": [1, 2]},
        {"geometry": None},
        {"geometry": {"family": "llama"}},
        {"surprise": 1},
        {"arrays": {"ScoreTable.extra": np.zeros(1)}},
        {"without": ["ScoreTable.values"]},
        {"without": ["documents"]},
        {"documents": {"a": "b"}},
    ],
)
def test_a_right_checksum_around_wrong_content_is_refused(changes):
    with pytest.raises(CorruptResult):
        unpack(forged(**changes))


def test_a_pickle_is_refused():
    with pytest.raises(CorruptResult):
        unpack(pickle.dumps({"a": 1}))


def test_needs_no_torch():
    code = "import sys, headviz.store; print([m for m in ('torch', 'transformers', 'datasets') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
