"""Plots as SVG, whose text stays text."""

import io
import logging
import warnings
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Literal

Unit = Literal["number", "bytes", "percent"]

_WIDTH_INCHES = 9.0
_BAR_INCHES = 0.32
_LABEL_MAX = 60
_DAYS_MIN = 7
"""Days that the axis of a plot over days has at least."""
_COLOURS = ("#1f6feb", "#d4762c", "#2da44e", "#a371f7", "#cf222e", "#6e7781")
# Names of tables may contain $, and must not be read as formulas.
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "icecore", "text.parse_math": False, "font.family": "sans-serif", "font.size": 10}


def bars(title: str, names: Sequence[str], series: Mapping[str, Sequence[float]], *, unit: Unit = "number") -> str:
    """Horizontal bars: one group for each name, from the top, with a bar of each series."""
    with _style():
        figure, axes = _figure(0.9 + _BAR_INCHES * len(names) * max(1.0, 0.75 * len(series)))
        height = 0.8 / len(series)
        for number, (label, values) in enumerate(series.items()):
            places = [place + (number - (len(series) - 1) / 2) * height for place in range(len(names))]
            axes.barh(places, values, height * 0.9, label=label, color=_COLOURS[number % len(_COLOURS)])
        axes.set_yticks(range(len(names)), [_shortened(name) for name in names])
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        _show_values(axes.xaxis, unit)
        if len(series) > 1:
            axes.legend(frameon=False)
        return _svg(figure, axes, title)


def lines(title: str, series: Sequence[tuple[str, Sequence[tuple[date, float]]]], *, unit: Unit = "number") -> str:
    """A line over days for each series, whose names may be equal."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    with _style():
        figure, axes = _figure(3.2)
        for number, (label, points) in enumerate(series):
            colour = _COLOURS[number % len(_COLOURS)]
            axes.plot(*zip(*points, strict=True), label=_legend_text(label), marker="o", markersize=3, color=colour)
        days = [day for _, points in series for day, _ in points]
        axes.set_xlim(min(*days, max(days) - timedelta(days=_DAYS_MIN)), max(days) + timedelta(days=1))
        locator = AutoDateLocator(minticks=1, maxticks=8)
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
        _show_values(axes.yaxis, unit)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=8)
        return _svg(figure, axes, title)


def _style() -> Any:
    import matplotlib as mpl

    # It would write to the log that it reads the fonts of the machine.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    return mpl.rc_context(_STYLE)


def _figure(height_inches: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_INCHES, height_inches), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: Any, axes: Any, title: str) -> str:
    """The `svg` element alone, as it stands in HTML."""
    axes.set_title(title, loc="left")
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # The browser draws the text, with fonts that have the characters that Matplotlib's lack.
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _show_values(axis: Any, unit: Unit) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter, StrMethodFormatter

    if unit == "bytes":
        axis.set_major_formatter(EngFormatter(unit="B"))
    elif unit == "percent":
        axis.set_major_formatter(PercentFormatter(1.0))
    else:
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axis.set_major_locator(MaxNLocator(integer=True))


def _legend_text(name: str) -> str:
    """Matplotlib leaves names that begin with _ out of legends."""
    return f"\N{ZERO WIDTH SPACE}{_shortened(name)}" if name.startswith("_") else _shortened(name)


def visible(text: str) -> str:
    """The text with a replacement for each character that is not printed: those that XML forbids, and those that change the direction."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def _shortened(name: str) -> str:
    """Of a long name, its end."""
    plain = visible(name)
    return plain if len(plain) <= _LABEL_MAX else f"…{plain[1 - _LABEL_MAX :]}"
