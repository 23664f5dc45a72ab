"""A head set as a JSON file: which heads, of which model, and how they were chosen."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headviz.analysis.choose import HeadSet
from headviz.errors import BadInput
from headviz.types import DataRef, Geometry, QuestionsRef, build

FORMAT = "headviz head set"
VERSION = 1
_SHAPE = ("layers", "heads", "kv_heads")  # what must agree; the rest of the geometry is for the reader
_NAME = re.compile(r"L(\d+)\.H(\d+)")


def write_heads(
    chosen: HeadSet, *, model: str, revision: str = "", how: Mapping[str, Any] | None = None
) -> str:
    """The file's text. how: anything JSON that says how the set came about (score, share asked, data); it is kept as is."""
    g = chosen.geometry
    tree = {
        "format": FORMAT,
        "version": VERSION,
        "model": {"name": model, "revision": revision},
        "geometry": {
            "family": g.family,
            "layers": g.layers,
            "heads": g.heads,
            "kv_heads": g.kv_heads,
            "head_dim": g.head_dim,
            "hidden": g.hidden,
        },
        "count": chosen.count,
        "share": chosen.share,
        "how": dict(how or {}),
        "heads": [list(pair) for pair in chosen.heads],
    }
    text = json.dumps(tree, indent=1, ensure_ascii=False, allow_nan=False)
    # a head a line of its own, not a number a line
    return re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text) + "\n"


def read_heads(source: str | bytes | Path, *, model: str, revision: str = "", geometry: Geometry) -> HeadSet:
    """The set of a file (its text, its bytes, or a Path), for this model.

    Needed in the file: `model` (an object with a name, or the name) and `heads`: [layer, head] or "L03.H07" each. What else
    it says must agree: revision, geometry; a revision is compared where both sides know one.
    Raises BadInput, one sentence: unreadable, not a head set, another model, revision or shape, a head that is not there
    or twice, a count that does not match.
    """
    tree = _tree(source)
    if not isinstance(tree, dict) or not isinstance(tree.get("heads"), list):
        raise BadInput("This is no head set: a JSON object with 'model' and a list 'heads' was expected.")
    if tree.get("format", FORMAT) != FORMAT or tree.get("version", VERSION) != VERSION:
        raise BadInput(
            f"This file is {tree.get('format')!r}, version {tree.get('version')}; {FORMAT!r}, version {VERSION} was expected."
        )
    _check_model(tree.get("model"), model, revision)
    shape = tree.get("geometry") or {}
    if not isinstance(shape, dict):
        raise BadInput("The head set's 'geometry' is not a JSON object.")
    for name in _SHAPE:
        if name in shape and shape[name] != getattr(geometry, name):
            raise BadInput(
                f"The head set is for a model with {shape[name]} {name}; {model} has {getattr(geometry, name)}."
            )
    chosen = HeadSet(heads=tuple(_pair(item) for item in tree["heads"]), geometry=geometry)
    if tree.get("count", chosen.count) != chosen.count:
        raise BadInput(f"The head set says it has {tree['count']} heads but lists {chosen.count}.")
    return chosen


def read_origin(source: str | bytes | Path) -> tuple[DataRef | QuestionsRef | None, ...]:
    """On what a file says that its heads were chosen (`how.chosen_on`); None where it does not, or not so that it can be
    compared with what is measured. Raises BadInput where the file is no JSON."""
    tree = _tree(source)
    how = tree.get("how") if isinstance(tree, dict) else None
    told = how.get("chosen_on") if isinstance(how, dict) else None
    return read_places(told if isinstance(told, list) else [told])


def read_places(trees: list[Any]) -> tuple[DataRef | QuestionsRef | None, ...]:
    """Texts and question sets from JSON types, each once; None for what is neither."""
    return tuple(dict.fromkeys(_place(tree) for tree in trees))


def _place(tree: Any) -> DataRef | QuestionsRef | None:
    if not isinstance(tree, dict):
        return None
    try:
        return build(QuestionsRef if "source" in tree else DataRef, tree)
    except BadInput:
        return None


def _tree(source: str | bytes | Path) -> Any:
    try:
        text = source.read_bytes() if isinstance(source, Path) else source
        return json.loads(text)
    except OSError as error:
        raise BadInput(f"Cannot read {source}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:  # JSONDecodeError, UnicodeDecodeError
        raise BadInput(f"The head set is not JSON: {error}.") from None


def _check_model(stated: Any, model: str, revision: str) -> None:
    stated = {"name": stated} if isinstance(stated, str) else stated
    if not isinstance(stated, dict) or not stated.get("name"):
        raise BadInput("The head set does not say which model it is for: it needs a 'model' with a 'name'.")
    if stated["name"] != model:
        raise BadInput(
            f"The head set is for {stated['name']}, not for {model}: heads of one model say nothing of another."
        )
    theirs = stated.get("revision") or ""
    if theirs and revision and theirs != revision:
        raise BadInput(f"The head set is for revision {theirs} of {model}, but {revision} is loaded.")


def _pair(item: Any) -> tuple[Any, Any]:
    if isinstance(item, str) and (found := _NAME.fullmatch(item.strip())):
        return int(found[1]), int(found[2])
    if isinstance(item, list) and len(item) == 2:
        return item[0], item[1]
    raise BadInput(f"A head is written [layer, head] or L03.H07, not {item!r}.")
