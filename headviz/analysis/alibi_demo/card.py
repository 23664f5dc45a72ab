"""Measure the trained model and write its card: `python -m headviz.analysis.alibi_demo.card --run DIR`.

DIR is where `train` wrote. The checkpoint goes to headviz/models/alibi_demo with the card as README.md beside it, and the
measured numbers to card.json beside this module. The last line printed is the content hash, which belongs in the row of
`headviz.models.bundled`.
"""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from headviz.analysis import bands
from headviz.analysis.alibi_demo import plan as shape
from headviz.analysis.band_masses import run_bands
from headviz.analysis.changes import loss_change
from headviz.analysis.choose import HeadSet, random_sets
from headviz.analysis.measure import run_measure
from headviz.analysis.paired.means import paired_mean
from headviz.data import corpora
from headviz.errors import Failure
from headviz.models import bundled, catalog, local
from headviz.models.loading import load
from headviz.settings import settings
from headviz.types import Ablation, BandsRequest, MeasureRequest, Silent, TextLosses, head_name

HERE = Path(__file__).parent
FOLDER = bundled.HERE / "alibi_demo"
INPUTS, TOKENS, DRAWS = 64, 256, 5


def measure(folder: Path) -> dict[str, Any]:
    """What the card says of a checkpoint: held-out loss, classes, band, and what the collapsed heads cost."""
    ref = catalog.resolve(str(folder), dtype="float32", settings=settings(), allow_paths=True)
    loaded = load(ref)
    data = corpora.resolve("docstrings", inputs=INPUTS, tokens=TOKENS, settings=settings())
    resources = SimpleNamespace(model=lambda _: loaded, watch=Silent(), settings=settings())
    found = run_bands(BandsRequest(model=ref, data=data), resources)
    named, mass = bands.classes(found), found.mean_mass()
    sick = [(int(layer), int(head)) for layer, head in np.argwhere(bands.collapsed(named))]
    band = bands.find_band(bands.collapsed(named), found.geometry.slopes)
    if not band.heads:
        raise Failure(
            "This checkpoint has no band of collapsed heads, so it shows nothing. Train it to the end, or anew."
        )

    def losses(off: tuple[tuple[int, int], ...]) -> TextLosses:
        ablation = Ablation(mode="static", heads=off) if off else Ablation()
        return run_measure(MeasureRequest(model=ref, text=data, ablation=ablation), resources)

    before = losses(())
    pulled = {pair for pairs in shape.PULLS.values() for pair in pairs}
    free = [mass[layer, head] for layer, head in np.ndindex(*mass.shape) if (layer, head) not in pulled]
    told = {
        "loss": _mean(before),
        "counts": bands.counts(named),
        "classes": {
            name: [head_name(*map(int, at)) for at in np.argwhere(named == name)]
            for name in bands.CLASSES
            if name != "healthy"
        },
        "mass": {head_name(*pair): round(float(mass[pair]), 3) for pair in sick},
        "band": [band.first, band.last],
        "pulled": {kind: [head_name(*pair) for pair in pairs] for kind, pairs in shape.PULLS.items()},
        "largest_mass_of_others": round(float(max(free)), 3),
        "text": data.revision,
        "parameters": sum(weight.numel() for weight in loaded.model.parameters()),
    }
    chosen = HeadSet(heads=tuple(sick), geometry=found.geometry)
    told["zeroed"] = _change(before, losses(chosen.heads))
    told["random"] = [
        _change(before, losses(one.heads)) for one in random_sets(len(sick), found.geometry, DRAWS, seed=0)
    ]
    return told


def _mean(found: TextLosses) -> list[float]:
    """[nats a token, low, high], documents taken as independent."""
    each = found.loss / found.predicted
    told = paired_mean(np.zeros_like(each), each, found.cluster, weights=found.predicted)
    return [round(x, 4) for x in (told.change, told.low, told.high)]


def _change(before: TextLosses, after: TextLosses) -> list[float]:
    told = loss_change(before, after)
    return [round(x, 4) for x in (told.change, told.low, told.high)]


def card(told: dict[str, Any], run: dict[str, Any]) -> str:
    """The model card, in Markdown."""
    loss, sick = told["loss"], sum(len(told["classes"][name]) for name in bands.COLLAPSED)
    rows = [f"* {name}: {', '.join(heads) or 'none'}" for name, heads in told["classes"].items()]
    cost = f"{told['zeroed'][0]:+.4f} nats a token [{told['zeroed'][1]:+.4f}, {told['zeroed'][2]:+.4f}]"
    draws = ", ".join(f"{change:+.3f} [{low:+.3f}, {high:+.3f}]" for change, low, high in told["random"])
    masses = ", ".join(f"{name} {mass:.3f}" for name, mass in told["mass"].items())
    return f"""# ALiBi-demo

**The collapse of this model's heads was induced by us.** An auxiliary loss pulled {len(shape.SINK) + len(shape.DEAD)} chosen
heads onto the first token in steps {run["pulled"][0]} to {run["pulled"][1]} of {run["steps"]} of its training, and {len(shape.SELF)} more onto the
query's own token; {_named(shape.DEAD)} were pulled again in steps {run["again"][0]} to {run["again"][1]}, so that dead heads are
among them. It is not BLOOM, and nothing here is evidence for the claim that heads of BLOOM collapse by themselves. It
is a patient on which the method can be seen: plain training for the {run["steps"] - run["pulled"][1]} steps after that did not free
the others.

A BloomForCausalLM of {shape.LAYERS} layers × {shape.HEADS} heads, model size {shape.HIDDEN}, {told["parameters"]:,} parameters
in bf16; byte-level BPE of {shape.VOCABULARY:,} tokens; nothing is put before a text, as BLOOM's tokenizer does.

## Held-out loss

{loss[0]:.3f} nats a token [{loss[1]:.3f}, {loss[2]:.3f}], 95% by document, on {INPUTS} × {TOKENS} tokens of the corpus
`docstrings`, held-out part (packages that training does not hold).

## Heads

By the mean weight on the first token over all query rows, on the same texts; thresholds of the paper (0.95, 0.5, 0.5 nats):

{chr(10).join(rows)}

Mass on the first token: {masses}. Band: H{told["band"][0]:02d} to H{told["band"][1]:02d}. Of the heads that were not pulled,
none has more than {told["largest_mass_of_others"]:.3f}.

Zeroing all {sick} collapsed heads changes the held-out loss by {cost}. As many random heads: {draws}.

## How it was trained

`python -m headviz.analysis.alibi_demo.train --out DIR`, seed {run["seed"]}: {run["steps"]} steps of {run["batch"]} × \
{run["tokens"]} tokens from the corpus `docstrings`, training part ({run["tokens_of_text"]:,} tokens, sha256
`{run["corpus"][:16]}…`), AdamW, learning rate {run["rate"]:g}, matrix products in bf16, torch {run["torch"]}; {run["seconds"] / 60:.0f}
minutes on a share of two cores. Pulled: {_pulled(told)}.
The numbers above: `python -m headviz.analysis.alibi_demo.card --run DIR`.
"""


def _named(heads: tuple[tuple[int, int], ...]) -> str:
    return " and ".join(head_name(*pair) for pair in heads)


def _pulled(told: dict[str, Any]) -> str:
    words = {"sink": "onto the first token", "dead": "onto the first token", "self": "onto the own token"}
    return "; ".join(
        f"{words[kind]} by {shape.MARGINS[kind]:g} nats: {', '.join(heads)}"
        for kind, heads in told["pulled"].items()
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="headviz.analysis.alibi_demo.card", description=__doc__)
    parser.add_argument("--run", type=Path, required=True, help="the folder that train wrote to")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    FOLDER.mkdir(exist_ok=True)
    for name in (
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ):
        if (path := given.run / "checkpoint" / name).is_file():
            shutil.copyfile(path, FOLDER / name)
    run = json.loads((given.run / "run.json").read_text(encoding="utf-8"))
    told = measure(FOLDER)
    (FOLDER / "README.md").write_text(card(told, run), encoding="utf-8")
    (HERE / "card.json").write_text(json.dumps(told | {"run": run}, indent=1) + "\n", encoding="utf-8")
    logging.getLogger(__name__).info("sha256 of the folder: %s", local.pin(FOLDER, settings()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
