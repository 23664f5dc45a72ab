"""What the bands page says in words: the sentence, the band, the hover of a head. No streamlit."""

from __future__ import annotations

import numpy as np

from headviz.analysis import bands as of
from headviz.analysis.bands import Band
from headviz.analysis.nulls import advantage
from headviz.charts import fmt
from headviz.types import head_name

WHY = (
    "The paper explains the band the wrong way round: it says that late heads have the steepest slopes and that the first token is "
    "never penalised. By its own formula, 2^(−8(h+1)/n), head 15 of 16 has the **shallowest** slope (0.0039) and head 0 the steepest "
    "(0.707); and ALiBi takes slope × distance off, so the first token is the **most** penalised key of a late query. Steep heads "
    "cannot reach it; shallow heads nearly ignore position, and can form the sink that models with any kind of positions form."
)


def sentence(work) -> str:
    """What a person would quote of this model."""
    counts, total = of.counts(work.named), work.named.size
    sick = counts["sink"] + counts["dead"]
    rows = " (query rows after the first)" if work.later else ""
    said = (
        f"**{fmt.count(sick, total)} heads are collapsed onto the first token**: {counts['sink']:,} sinks, {counts['dead']:,} dead; "
        f"{counts['low entropy']:,} of low entropy, {counts['healthy']:,} healthy{rows}. {band_words(work.band)}"
    )
    return f"{said} {needed(work)} {between(work)}"


def band_words(band: Band) -> str:
    """The band by indices and by slopes, with the share of layers that makes it."""
    rule = f"in more than {fmt.percent(band.share)} of the layers"
    if not band.heads:
        return f"No head index is collapsed {rule}, so there is no band."
    where = f"H{band.first:02d} to H{band.last:02d}" if band.first != band.last else f"H{band.first:02d}"
    said = f"The band: {where} collapsed {rule}"
    if band.gaps:
        said += f" (without {', '.join(f'H{head:02d}' for head in band.gaps)})"
    if band.steepest is None:
        return f"{said}; this model has no ALiBi slopes, so the index of a head means nothing across layers."
    slopes = (
        fmt.number(band.steepest)
        if band.steepest == band.shallowest
        else f"{fmt.number(band.steepest)} to {fmt.number(band.shallowest)}"
    )
    said += f", slopes {slopes} nats a token"
    if band.inside:
        names = ", ".join(f"H{head:02d}" for head in band.inside)
        said += f"; {names} lie between these slopes and are not in it"
    return f"{said}."


def needed(work) -> str:
    """By how much the first token's logit must lead, at the ends of the slopes or of the band, for a sink's mass."""
    T, mass = work.tokens, work.at.sink
    if not 1 / T < mass < 1:
        return ""
    if work.slopes is None:
        return f"Without slopes a first token needs a lead of {fmt.number(advantage(0.0, T, mass))} nats for a mean mass of {fmt.tick(mass)} at {T:,} tokens."
    ends = (max(work.slopes), min(work.slopes))
    told = " and ".join(f"{fmt.number(advantage(m, T, mass))} at slope {fmt.number(m)}" for m in ends)
    return f"For a mean mass of {fmt.tick(mass)} at {T:,} tokens the first token's logit must lead by {told} (nats)."


def between(work) -> str:
    share = of.share_between(work.mass)
    return f"{fmt.percent(share)} of the heads lie between 0.4 and 0.6, where a threshold decides by little."


def hovers(work, label: str = "") -> list[list[str]]:
    """(L, H) texts: class, mass and its spread over the inputs, entropy, slope, and what the slope alone gives."""
    entropy, slopes, null = work.bands.mean_entropy(), work.slopes, work.null
    alike = of.agreement(work.bands, work.at) if not work.later else None
    known = work.per_input[~np.isnan(work.per_input).any((1, 2))]
    low, high, spread = known.min(0), known.max(0), known.std(0)
    texts = []
    for layer in range(work.geometry.layers):
        line = []
        for head in range(work.geometry.heads):
            at = (layer, head)
            parts = [
                f"<b>{head_name(*at)}</b>{f' · {label}' if label else ''} · {work.named[at]}",
                f"mass {fmt.number(work.mass[at])}, slope alone {fmt.number(null[head])}"
                if slopes
                else f"mass {fmt.number(work.mass[at])}, even attention {fmt.number(null[head])}",
                f"over {len(known):,} texts: {fmt.number(low[at])} to {fmt.number(high[at])}, sd {fmt.number(spread[at])}",
                f"entropy {fmt.number(entropy[at])} nats",
            ]
            if alike is not None:
                parts.append(f"of this class on {fmt.percent(alike[at])} of the texts")
            if slopes:
                parts.append(
                    f"slope {fmt.number(slopes[head])} nats a token, window {fmt.number(1 / slopes[head])} tokens"
                )
            line.append("<br>".join(parts))
        texts.append(line)
    return texts


def first_tokens(work) -> str:
    """What stands first in these inputs."""
    bos, N = int(work.bands.first_is_bos.sum()), len(work.bands.lengths)
    if bos == N:
        return f"The first token is the model's BOS in all {N:,} texts."
    if bos == 0:
        return f"The first token is an ordinary token of the text in all {N:,} texts: no BOS stands there, as in the paper."
    return f"The first token is the model's BOS in {bos:,} of {N:,} texts."
