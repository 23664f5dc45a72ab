"""A plan of surgery as a JSON file: readable, and the same plan when it is read again. No torch."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from headviz.errors import BadInput
from headviz.types import RepairRequest, build, head_name, plain

FORMAT, VERSION = "headviz repair plan", 1
_NAME = re.compile(r"[Ll](\d+)\.[Hh](\d+)")


def write_plan(request: RepairRequest, *, rule: str = "", note: str = "") -> str:
    """The plan as a JSON file's text: the request, and beside it how its heads were chosen."""
    tree = plain(request)
    for name in ("heads", "healthy"):
        tree[name] = [head_name(*head) for head in getattr(request, name)]
    whole = {"format": FORMAT, "version": VERSION, "rule": rule, "note": note, "request": tree}
    text = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)
    return re.sub(r'",\n\s+"(?=L\d+\.H)', '", "', text) + "\n"  # heads beside each other, not a line each


def read_plan(source: str | bytes | dict[str, Any]) -> tuple[RepairRequest, str]:
    """(request, rule) of a plan's text, bytes or tree. Raises BadInput, one sentence, for anything else."""
    tree = source
    if not isinstance(source, dict):
        try:
            tree = json.loads(source)
        except (ValueError, RecursionError) as error:
            raise BadInput(f"The plan is not JSON: {error}.") from None
    if not isinstance(tree, dict) or not isinstance(tree.get("request"), dict):
        raise BadInput("This is no plan of a repair: a JSON object with 'format' and 'request' was expected.")
    if tree.get("format", FORMAT) != FORMAT or tree.get("version", VERSION) != VERSION:
        raise BadInput(
            f"This file is {tree.get('format')!r}, version {tree.get('version')!r}; {FORMAT!r}, version {VERSION} was expected."
        )
    if tree.get("kind", "repair") != "repair":  # a job's spec is taken too
        raise BadInput(f"This file asks for {tree['kind']!r}, which is no repair.")
    fields = dict(tree["request"])
    fields.pop("kind", None)
    for name in ("heads", "healthy"):
        if isinstance(fields.get(name), list):
            fields[name] = [_pair(item) for item in fields[name]]
    rule = tree.get("rule", "")
    request = build(RepairRequest, fields)
    sorted_heads = replace(
        request, heads=tuple(sorted(request.heads)), healthy=tuple(sorted(request.healthy))
    )
    return sorted_heads, rule if isinstance(rule, str) else ""


def _pair(item: Any) -> list[int]:
    if isinstance(item, str) and (found := _NAME.fullmatch(item.strip())):
        return [int(found[1]), int(found[2])]
    whole = isinstance(item, list) and len(item) == 2 and all(type(number) is int for number in item)
    if not whole:
        raise BadInput(f"A head is written L03.H07 or [3, 7] in a plan, not {item!r}.")
    return item
