"""Numbers as people read them: three significant digits, a unit, and never "0.0%" for something small."""

from __future__ import annotations

import math
import textwrap

_GAP = "\u00a0"  # no-break space between a number and its unit, where lines are wrapped by others
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
NOT_DEFINED = "not defined"


def number(value: float, digits: int = 3) -> str:
    """`value` to `digits` significant digits: 0.512, 12.3, 1,230, 1.20×10⁻⁵, −0.5; NaN is "not defined"."""
    value = float(value)
    if math.isnan(value):
        return NOT_DEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    size = math.floor(math.log10(abs(rounded)))
    if size < -4 or size >= 9:
        mantissa = f"{rounded / 10.0**size:.{digits - 1}f}"
        text = f"{mantissa}×10{str(size).translate(_SUPERSCRIPT)}"
    else:
        text = f"{rounded:,.{max(digits - 1 - size, 0)}f}"
    return text.replace("-", "−", 1) if rounded < 0 else text


def tick(value: float) -> str:
    """`value` for an axis: as `number`, without trailing zeros."""
    text = number(value)
    if "." in text and "×" not in text:
        text = text.rstrip("0").rstrip(".")
    return text


def percent(share: float) -> str:
    """A share of 0..1 as percent: 0%, 0.0123%, 20.0%, 99.96%, 100%. Only exactly none and all print as 0% and 100%."""
    share = float(share)
    if math.isnan(share):
        return NOT_DEFINED
    if share in (0.0, 1.0):
        return f"{share:.0%}"
    if 0.9995 <= share < 1:
        return f"{math.floor(share * 1e6) / 1e4:.4f}".rstrip("0").rstrip(".") + "%"
    return number(share * 100) + "%"


def count(part: int, whole: int) -> str:
    """`54 of 270 (20.0%)`; of nothing, there is no percentage."""
    share = f" ({percent(part / whole)})" if whole else ""
    return f"{part:,} of {whole:,}{share}"


def plural(number: int, what: str) -> str:
    """`1 head`, `1,230 heads`."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def with_unit(value: float, unit: str) -> str:
    """`1.23 nats`; an empty unit is left out, and so is the unit of what is not defined."""
    text = number(value)
    return text if not unit or text == NOT_DEFINED else f"{text} {unit}"


def interval(value: float, low: float, high: float, unit: str = "") -> str:
    """`0.23 nats [0.20, 0.26]`."""
    return f"{with_unit(value, unit)} [{number(low)}, {number(high)}]"


def duration(seconds: float) -> str:
    """`1.80 s`, `2 min 5 s`, `1 h 12 min`; no line breaks between a number and its unit."""
    if seconds < 99.5:
        return f"{number(seconds)}{_GAP}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{_GAP}min {rest}{_GAP}s"
    return f"{minutes // 60}{_GAP}h {minutes % 60}{_GAP}min"


def roughly(seconds: float) -> str:
    """A duration that is only guessed: `a minute or less`, `5 min`, `1 h 10 min`, `30 h`, `4 days`; no seconds."""
    minutes = round(seconds / 60)
    if seconds < 60:
        return "a minute or less"
    if minutes < 60:
        return f"{minutes}{_GAP}min"
    if minutes < 10 * 60:
        hours, tens = divmod(round(minutes / 10), 6)
        return f"{hours}{_GAP}h" + (f" {10 * tens}{_GAP}min" if tens else "")
    hours = round(minutes / 60)
    return f"{hours}{_GAP}h" if hours < 48 else f"{round(hours / 24)} days"


def size(count: float) -> str:
    """Bytes as people write them: `512 B`, `1.23 GB` (powers of 1000)."""
    for unit in ("B", "KB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{number(count)} {unit}" if unit != "B" else f"{round(count)} B"
        count /= 1000
    return f"{number(count)} TB"


def signed(value: float) -> str:
    """A change with its sign: +0.230, −0.120, 0."""
    text = number(value)
    return f"+{text}" if value > 0 else text


def wrap(note: str, chars: int) -> list[str]:
    """Lines of at most `chars`, broken between the parts of a caption where that is possible."""
    lines: list[str] = []
    for part in note.split(" · ") if note else ():
        if lines and len(lines[-1]) + len(part) + 3 <= chars:
            lines[-1] += f" · {part}"
        else:
            lines += textwrap.wrap(part, chars)
    return lines
