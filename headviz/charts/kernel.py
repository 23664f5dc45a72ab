"""How far back one head looks: its attention by distance beside the kernel of its slope."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go

from headviz.charts import frame
from headviz.types import AttentionByDistance, head_name

LEAST = 1e-6  # of the logarithmic axis of weights; what is smaller is drawn at its lower edge


def by_distance(
    found: AttentionByDistance,
    null: np.ndarray,
    *,
    what: str,
    theme: str = "light",
    width: int = frame.NARROW,
    provenance: str = "",
) -> go.Figure:
    """Mean weight at each distance in tokens, both axes logarithmic; distance 0, the token itself, stands at 1 as "0".

    null: (T,) weight that the slope alone gives; what: its name in the key.
    """
    p = frame.palette(theme)
    figure = frame.start(theme, 380, left=66, top=48, bottom=46, note=provenance, chars=frame.fitting(width))
    T = len(found.mean)
    place = np.arange(1, T + 1)
    lines = (
        (null, what, p.null, "solid"),
        (found.mean, "measured", p.accent, "solid"),
        (found.without_first, "measured, first token left out", p.text, "dot"),
    )
    for values, name, colour, dash in lines:
        figure.add_scatter(
            x=place,
            y=np.maximum(values, LEAST),
            customdata=place - 1,
            text=[f"{x:.3g}" for x in values],
            mode="lines",
            line={"color": colour, "width": 2, "dash": dash},
            hovertemplate=f"{name}<br>distance %{{customdata}}: %{{text}}<extra></extra>",
            name=name,
        )
    at = [d for d in (0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 2047, 4095) if d < T]
    key = "   ".join(
        f"<span style='color:{colour}'>{'┄' if dash == 'dot' else '━'}</span> {name}"
        for _, name, colour, dash in lines
    )
    frame.label(figure, key, theme, yshift=6, xshift=-56, name="key", font={"size": 12, "color": p.text})
    frame.heading(figure, head_name(found.layer, found.head), theme, yshift=24, xshift=-56)
    figure.update_layout(
        xaxis=frame.axis(
            theme, "distance back, tokens", type="log", fixedrange=True,
            tickvals=[d + 1 for d in at], ticktext=[str(d) for d in at],
        ),
        yaxis=frame.axis(
            theme, "mean attention weight", type="log", range=[np.log10(LEAST), 0.1], fixedrange=True,
            tickvals=[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1], ticktext=["≤10⁻⁶", "10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1", "1"],
        ),
    )  # fmt: skip
    return figure
