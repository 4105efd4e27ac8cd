"""The figures of a run's page: axes, glyphs and named sources, all empty; `run.js` fills them.

`page.js` paints every figure in the colours of the page, light or dark. What people named themselves never
becomes part of a figure: Bokeh would read some of it as mathematics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from bokeh.document import Document
from bokeh.models import (
    BasicTicker,
    BoxZoomTool,
    ColorBar,
    ColumnDataSource,
    HoverTool,
    Legend,
    LegendItem,
    LinearColorMapper,
    PanTool,
    PrintfTickFormatter,
    Range1d,
    ResetTool,
    SaveTool,
    Span,
    WheelZoomTool,
)
from bokeh.palettes import Cividis256
from bokeh.plotting import figure

# Those of Okabe and Ito that show on white and on black.
BLUE, ORANGE, GREEN, PINK, YELLOW, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
SMALL_PX, LARGE_PX = 250, 520

Figure = Any


class Score(NamedTuple):
    """How devices are scored: a title, a label for axes, a factor from records to axes, and its unit."""

    title: str
    label: str
    factor: float
    unit: str

    @property
    def word(self) -> str:
        return self.title.lower()


Draw = Callable[[Figure, ColumnDataSource], None]


def blank(name: str, title: str, x: str, y: str, height: int = SMALL_PX, **more: Any) -> Figure:
    """A figure with tools for mouse and touch, none of which takes a finger that only scrolls."""
    tools = [PanTool(), BoxZoomTool(), WheelZoomTool(), ResetTool(), SaveTool(filename=name)]
    drawing = figure(
        name=name,
        title=title,
        height=height,
        sizing_mode="stretch_width",
        tools=tools,
        active_drag=None,
        active_scroll=None,
        active_tap=None,
        x_axis_label=x,
        y_axis_label=y,
        **more,
    )
    drawing.toolbar.logo = None
    drawing.toolbar.autohide = True
    drawing.min_border_right = 12
    drawing.xaxis.ticker = BasicTicker(desired_num_ticks=5)  # more overlap on a phone
    return drawing


def source(name: str, *columns: str) -> ColumnDataSource:
    return ColumnDataSource({column: [] for column in columns}, name=name)


def legend(drawing: Figure, entries: dict[str, list[Any]]) -> None:
    """Above the axes, where it hides nothing."""
    items = [LegendItem(label=label, renderers=renderers) for label, renderers in entries.items()]
    layout = Legend(items=items, orientation="horizontal", location="left", border_line_color=None)
    if len(items) > 3:  # in two rows, as a phone is narrow
        layout.ncols = 2
    layout.update(margin=0, padding=2, spacing=12, label_text_font_size="12px", background_fill_alpha=0)
    drawing.add_layout(layout, "above")


def cursor(drawing: Figure) -> None:
    """The line that marks the round of the slider."""
    drawing.add_layout(Span(dimension="height", line_dash="dashed", line_width=1.5, name="cursor"))


def whole(drawing: Figure) -> None:
    """Rounds and devices are counted."""
    drawing.xaxis.formatter = PrintfTickFormatter(format="%d")
    drawing.xaxis.ticker = BasicTicker(min_interval=1)


def cell_map(side_m: float) -> Figure:
    """The cell from above, each device in the colour of what a person chose."""
    drawing = blank(
        "map",
        "The cell",
        "metres east of the server",
        "metres north of the server",
        LARGE_PX,
        match_aspect=True,
    )
    half = side_m / 2
    drawing.quad(-half, half, -half, half, fill_alpha=0, line_dash="dotted", line_color="#888888")
    mapper = LinearColorMapper(Cividis256, low=0, high=1, nan_color="#999999", name="colours")
    devices = source("devices", "x", "y", "value", "device", "state")
    dots = drawing.scatter(
        "x",
        "y",
        source=devices,
        size=10,
        name="dots",
        fill_color={"field": "value", "transform": mapper},
        line_color="#888888",
        line_width=0.8,
    )
    taken = source("taken", "x", "y", "size")
    ring: dict[str, Any] = {"fill_alpha": 0, "line_color": ORANGE, "line_width": 2.5}
    rings = drawing.scatter("x", "y", source=taken, size="size", **ring)
    drawing.text(
        "x",
        "y",
        text="share",
        source=source("shares", "x", "y", "share"),
        x_offset=9,
        y_offset=-6,
        text_font_size="11px",
        name="ink",
    )
    chosen = source("chosen", "x", "y")
    square: dict[str, Any] = {"fill_alpha": 0, "line_color": PINK, "line_width": 3}
    drawing.scatter("x", "y", source=chosen, size=22, marker="square", **square)
    server = drawing.scatter(
        [0], [0], marker="triangle", size=15, fill_color=GREEN, line_color="white", level="overlay"
    )
    tooltips = [("device", "@device"), ("value", "@value"), ("this round", "@state")]
    drawing.add_tools(HoverTool(renderers=[dots], tooltips=tooltips, name="tips"))
    bar = ColorBar(color_mapper=mapper, name="bar", height=12, padding=4, title_standoff=6, margin=4)
    drawing.add_layout(bar, "below")
    legend(drawing, {"server": [server], "scheduled": [rings]})
    return drawing


def division(deadline_s: float, receives: bool) -> Figure:
    """A round's time and band: a bar per device, as high as its share, computing and then uploading.

    Where receiving takes time, it comes first.
    """
    drawing = blank(
        "division",
        "Band and deadline of the round",
        "time in the round (s)",
        "share of the band (%)",
        LARGE_PX - 100,
        x_range=Range1d(0, 1.06 * deadline_s),
        y_range=Range1d(0, 100),
    )
    bars = source("bars", "bottom", "top", "received", "computed", "done", "device", "energy")
    style: dict[str, Any] = {"source": bars, "top": "top", "bottom": "bottom", "line_color": "#888888"}
    style["line_width"] = 0.5
    drawn = (
        {"receiving": [drawing.quad(left=0, right="received", fill_color=PINK, **style)]} if receives else {}
    )
    drawn["computing"] = [drawing.quad(left="received", right="computed", fill_color=YELLOW, **style)]
    drawn["uploading"] = [drawing.quad(left="computed", right="done", fill_color=SKY, **style)]
    names = source("names", "y", "name")
    small: dict[str, Any] = {"text_baseline": "middle", "text_font_size": "10px", "x_offset": 4}
    drawing.text(0, "y", text="name", source=names, **small)
    drawing.add_layout(Span(location=deadline_s, dimension="height", line_color=ORANGE, line_width=2))
    tooltips = [
        ("device", "@device"),
        ("band, from and to (%)", "@bottom{0.[00]} - @top{0.[00]}"),
        *([("received after (s)", "@received{0.[000]}")] if receives else []),
        ("computed after (s)", "@computed{0.[000]}"),
        ("uploaded after (s)", "@done{0.[000]}"),
        ("energy (J)", "@energy{0.[0000]}"),
    ]
    drawing.add_tools(
        HoverTool(renderers=[bar for part in drawn.values() for bar in part], tooltips=tooltips)
    )
    legend(drawing, drawn)
    return drawing


def curve(
    name: str, title: str, y: str, lines: dict[str, tuple[str, str, str]], data: ColumnDataSource, **more: Any
) -> Figure:
    """Lines over rounds: for each label its column, colour and dash."""
    drawing = blank(name, title, "round", y, **more)
    drawn = {}
    for label, (column, colour, dash) in lines.items():
        style: dict[str, Any] = {"source": data, "line_color": colour, "line_dash": dash, "line_width": 2}
        drawn[label] = [drawing.line("x", column, **style)]
        if len(lines) > 1 or name == "accuracy":
            dots = {"source": data, "size": 3, "line_color": colour, "fill_color": colour}
            drawn[label].append(drawing.scatter("x", column, **dots))
    cursor(drawing)
    tooltips = [("", "@x"), *((label, f"@{column}{{0.[0000]}}") for label, (column, _, _) in lines.items())]
    first = next(iter(drawn.values()))[0]
    drawing.add_tools(HoverTool(renderers=[first], tooltips=tooltips, mode="vline"))
    if len(lines) > 1:
        legend(drawing, drawn)
    return drawing


def curves(score: Score | None, counts_energy: bool, bounded: bool) -> dict[str, Figure]:
    """What a run's curves can be, as far as it measures them."""
    found: dict[str, Figure] = {}
    if score:
        data = source("learning", "x", "accuracy", "worst", "low", "high", "loss")
        lines = {"mean over devices": ("accuracy", BLUE, "solid"), "worst tenth": ("worst", ORANGE, "dashed")}
        found["accuracy"] = curve("accuracy", score.title, score.label, lines, data)
        found["accuracy"].varea("x", "low", "high", source=data, fill_color=BLUE, fill_alpha=0.15)
        found["loss"] = curve("loss", "Loss", "test loss", {"mean": ("loss", BLUE, "solid")}, _again(data))
    data = source("rounds", "x", "samples", "mean_j", "worst_j", "budget_j", "mean_q", "max_q", "gap")
    lines = {"samples": ("samples", GREEN, "solid")}
    found["samples"] = curve("samples", "Scheduled samples", "samples in the round", lines, _again(data))
    if counts_energy:
        lines = {
            "mean": ("mean_j", BLUE, "solid"),
            "worst device": ("worst_j", ORANGE, "dashed"),
            "budget": ("budget_j", GREEN, "dotted"),
        }
        found["energy"] = curve("energy", "Energy against budget", "J per round so far", lines, _again(data))
        lines = {"mean": ("mean_q", BLUE, "solid"), "longest": ("max_q", ORANGE, "dashed")}
        found["queues"] = curve("queues", "Energy queues", "beyond the budget (J)", lines, _again(data))
    if bounded:
        lines = {"gap": ("gap", PINK, "solid")}
        found["gap"] = curve("gap", "Optimality gap", "above the lower bound (%)", lines, _again(data))
    return found


def _again(data: ColumnDataSource) -> ColumnDataSource:
    """The same columns for another figure, which is a document of its own."""
    return source(str(data.name), *data.data)


def bands(name: str, title: str, y: str) -> Figure:
    """Lines with intervals around them, as many as there are; `page.bands` fills them."""
    drawing = blank(name, title, "round", y, 320)
    data = source("curves", "xs", "ys", "bands_x", "bands_y", "colour", "dash", "number")
    drawing.patches("bands_x", "bands_y", source=data, fill_color="colour", fill_alpha=0.18, line_alpha=0)
    style: dict[str, Any] = {"line_color": "colour", "line_dash": "dash", "line_width": 2.5}
    lines = drawing.multi_line("xs", "ys", source=data, **style)
    tooltips = [("line", "@number"), ("", "$data_x{0.[00]}"), ("", "$data_y{0.[0000]}")]
    drawing.add_tools(HoverTool(renderers=[lines], tooltips=tooltips))
    return drawing


def distribution(name: str, title: str, x: str, colour: str) -> Figure:
    """How many devices have how much of something."""
    drawing = blank(name, title, x, "devices")
    data = source("bins", "left", "right", "top")
    bars = drawing.quad("left", "right", "top", 0, source=data, fill_color=colour, line_color="#888888")
    drawing.y_range.start = 0
    drawing.add_tools(
        HoverTool(renderers=[bars], tooltips=[("from", "@left"), ("to", "@right"), ("devices", "@top")])
    )
    return drawing


def device_story(
    rounds: int, learns: bool, score: Score | None, counts_energy: bool, knows_gain: bool
) -> dict[str, Figure]:
    """One device over all rounds."""
    found: dict[str, Figure] = {}

    def add(
        name: str, title: str, y: str, draw: Callable[[Figure, ColumnDataSource], Any], *columns: str
    ) -> None:
        all_rounds = Range1d(0, rounds + 1)
        drawing = blank(f"story-{name}", title, "round", y, SMALL_PX - 30, x_range=all_rounds)
        draw(drawing, source("story", "x", *columns))
        cursor(drawing)
        whole(drawing)
        found[f"story-{name}"] = drawing

    def line(column: str, colour: str) -> Draw:
        def draw(drawing: Figure, data: ColumnDataSource) -> None:
            drawing.line("x", column, source=data, line_color=colour, line_width=2)
            drawing.scatter("x", column, source=data, size=4, line_color=colour, fill_color=colour)

        return draw

    def stems(column: str, colour: str) -> Draw:
        def draw(drawing: Figure, data: ColumnDataSource) -> None:
            drawing.segment("x", 0, "x", column, source=data, line_color=colour, line_width=2)
            drawing.scatter("x", column, source=data, size=6, line_color=colour, fill_color=colour)

        return draw

    def spending(drawing: Figure, data: ColumnDataSource) -> None:
        spent = drawing.line("x", "spent", source=data, line_color=BLUE, line_width=2)
        budget = drawing.line("x", "budget", source=data, line_color=GREEN, line_dash="dotted", line_width=2)
        legend(drawing, {"spent": [spent], "budget": [budget]})

    if knows_gain:
        add("gain", "Channel gain", "gain (dB)", line("gain", SKY), "gain")
    if counts_energy:
        add("share", "Its turns", "share of the band (%)", stems("share", ORANGE), "share")
        add("clock", "CPU clock", "clock (GHz)", stems("clock", YELLOW), "clock")
        add("power", "Transmit power", "power (W)", stems("power", SKY), "power")
        add("energy", "Energy since the start", "energy (J)", spending, "spent", "budget")
        add("queue", "Energy queue", "beyond the budget (J)", line("queue", PINK), "queue")
    else:
        add("share", "Its turns", "took part", stems("share", ORANGE), "share")
    if score:
        add("accuracy", score.title, score.label, line("accuracy", BLUE), "accuracy")
    if learns:
        add("loss", "Training loss in its turns", "loss", stems("loss", GREEN), "loss")
    return found


def items(figures: dict[str, Figure]) -> dict[str, Any]:
    """Figures as BokehJS takes them, each a document of its own."""
    found = {}
    for name, drawing in figures.items():
        document = Document()
        document.add_root(drawing)
        found[name] = document.to_json(deferred=False)
    return found
