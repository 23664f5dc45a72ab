"""Several head sets in one pass against one after another: short prompts, few and more of them.

The bundled model in float32 on zero-shot questions of the quiz, eight sets of 54 heads, every prompt whole. A pass is
bound by reading the weights while it holds few tokens, and by arithmetic from some hundred on: beyond, a wider pass
gains nothing. Processor seconds of one thread, which the neighbours of a busy machine change little.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

import numpy as np

from tests.bench.rows import Row, child, timed

SETS, PROMPTS = 8, (1, 2, 4, 8, 16)


def run(repeats: int) -> list[Row]:
    """All rows."""
    print("… eight head sets at once and one after another", file=sys.stderr, flush=True)
    rows = []
    for case, times in child("tests.bench.sets", str(min(repeats, 5))).items():
        rows.append(
            timed(f"{SETS} head sets, {case}, in one pass", times["one"], "one after another", times["each"])
        )
    return rows


def main(repeats: int) -> dict[str, dict[str, list[float]]]:
    import torch

    from headviz.data.prompts import build_rows
    from headviz.data.questions import read_questions, resolve_questions
    from headviz.jobs.resources import Resources
    from headviz.models import catalog
    from headviz.settings import settings
    from headviz.types import Silent

    torch.set_num_threads(1)
    here = settings()
    loaded = Resources(here, 1).model(catalog.resolve("smollm2", dtype="float32", settings=here))
    ref = resolve_questions("quiz", shots=0, scoring="letter", settings=here)
    prompts = [row.tokens for row in build_rows(read_questions(ref, here, Silent()), ref, loaded.tokenizer)]
    L, H = loaded.geometry.layers, loaded.geometry.heads
    rng = np.random.default_rng(0)
    sets = [torch.from_numpy((rng.random((L, H)) >= 0.2).astype(np.float32)) for _ in range(SETS)]
    found = {}
    with torch.inference_mode():
        for count in PROMPTS:
            some = prompts[:count]
            times: dict[str, list[float]] = {"one": [], "each": []}
            for _ in range(repeats + 1):
                begun = time.process_time()
                together = at_once(loaded, sets, some)
                middle = time.process_time()
                apart = torch.cat([one_set(loaded, factors, some) for factors in sets])
                times["one"].append(middle - begun)
                times["each"].append(time.process_time() - middle)
            if (far := float((together - apart).abs().max())) > 1e-3:
                raise SystemExit(f"both ways differ by {far:.2g}: a benchmark of different things")
            case = f"{count} prompt{'s'[: count > 1]} of {sum(map(len, some)):,} tokens"
            found[case] = {name: several[1:] for name, several in times.items()}  # the first is warm-up
    return found


def one_set(loaded, factors, prompts: Sequence[Sequence[int]]):
    """(N, M) hidden states under one set, factors (L, H): a pass as a measurement makes it."""
    from headviz.models import gate
    from headviz.models.prefix import packed
    from headviz.types import Silent

    with packed(loaded.model, gates=gate.static(factors), watch=Silent()) as watching:
        return watching.pack(prompts)


def at_once(loaded, sets, prompts: Sequence[Sequence[int]]):
    """(K·N, M): the prompts K times in one row, each time under another set."""
    import torch

    from headviz.models.attention import attached
    from headviz.models.blocks import Attended
    from headviz.models.prefix import Packed
    from headviz.types import Silent

    length = sum(map(len, prompts))
    # L of (H, K·N, 1): what each token's heads are multiplied by
    factors = torch.stack(list(sets), -1).repeat_interleave(length, -1)[..., None]

    class Together(Packed):
        def _attended(self, layer, q, k, v, ask):
            found = super()._attended(layer, q, k, v, ask)
            return Attended(found.output * factors[layer], None, None)

    watching = Together(loaded.model, None, Silent())
    with attached(watching):
        return watching.pack([*prompts] * len(sets))


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
