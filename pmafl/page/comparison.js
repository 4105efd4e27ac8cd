// The page of a comparison: which variations are shown, against what, and in which order the table stands.
"use strict";

const comparison = {axis: "round", metric: 0, hidden: new Set(), sorted: null};

comparison.shown = () => comparison.data.variations.keys().filter((index) => !comparison.hidden.has(index));

comparison.axes = () => {
  const found = {round: ["rounds", "round"]};
  const finite = (name) => comparison.data.axes[name].every((values) => values.every(Number.isFinite));
  if (finite("seconds")) found.seconds = ["seconds", "time since the start (s), mean over seeds"];
  if (finite("joules") && found.seconds)
    found.joules = ["joules", "energy of all devices since the start (J), mean over seeds"];
  return found;
};

comparison.drawCurves = () => {
  const {data, axis} = comparison;
  for (const [name, bands] of Object.entries(data.curves)) {
    const lines = Array.from(comparison.shown(), (index) => ({
      index,
      x: Array.from(bands[index].at, (place) => data.axes[axis][index][place]),
      mean: bands[index].mean,
      half: bands[index].half_width,
    }));
    page.bands(name, lines);
    page.plot(name).below[0].axis_label = comparison.axes()[axis][1];
  }
};

comparison.drawDifferences = () => {
  const {data, metric} = comparison;
  const columns = {y: [], mean: [], low: [], high: [], colour: []};
  const rows = [];
  for (const index of comparison.shown()) {
    const [said, mean, half] = data.table.differences[index][metric];
    if (mean === null) continue;
    columns.y.push(index + 1);
    columns.mean.push(mean);
    columns.low.push(mean - (half ?? 0));
    columns.high.push(mean + (half ?? 0));
    columns.colour.push(page.style(index).colour);
    rows.push([comparison.name(index), said]);
  }
  page.fill("differences", "pairs", columns);
  const plot = page.plot("differences");
  plot.left[0].ticker.desired_num_ticks = Math.min(data.variations.length, 20);
  plot.y_range.setv({start: data.variations.length + 0.7, end: 0.3}); // the first on top
  plot.below[0].axis_label = `difference in ${data.table.metrics[metric][1]}`;
  page
    .byId("difference-table")
    .replaceChildren(
      rows.length
        ? page.table(rows, ["variation", data.table.metrics[metric][1]])
        : page.element("p", "There is nothing to compare with."),
    );
};

comparison.name = (index) => page.mark(index, comparison.data.variations[index]);

comparison.drawTable = () => {
  const {data, sorted} = comparison;
  const order = [...data.variations.keys()];
  const value = (index) => data.table.means[index][sorted.column][1] ?? -Infinity;
  if (sorted) order.sort((a, b) => sorted.sign * (value(a) - value(b)) || a - b);
  const rows = order.map((index) => [
    comparison.name(index),
    ...data.table.means[index].map(([said]) => said),
  ]);
  const table = page.table(rows, ["variation", ...data.table.metrics.map(([, name]) => name)]);
  [...table.querySelectorAll("th")].slice(1).forEach((head, column) => {
    const chosen = sorted && sorted.column === column;
    const arrow = chosen ? (sorted.sign < 0 ? " ▼" : " ▲") : "";
    const button = page.element("button", head.textContent + arrow, {type: "button", class: "small"});
    button.addEventListener("click", () => {
      comparison.sorted = {column, sign: chosen ? -sorted.sign : -1};
      comparison.drawTable();
    });
    head.setAttribute("aria-sort", chosen ? (sorted.sign < 0 ? "descending" : "ascending") : "none");
    head.replaceChildren(button);
  });
  page.byId("table").replaceChildren(table);
};

// Links to the pages of a variation's runs.
comparison.runs = (index) =>
  comparison.data.runs[index].flatMap(([seed, directory, there]) => {
    if (!there) return [` seed ${seed} (pmafl view ${directory})`];
    const link = page.element("a", `seed ${seed}`);
    link.href = `./${directory.split("/").map(encodeURIComponent).join("/")}/page.html`;
    return [" ", link];
  });

comparison.open = async (data) => {
  comparison.data = data;
  page.title(data.name, data.line);
  page.notes(data.notes);
  page.list("meaning", Object.entries(data.glossary));
  page.byId("baseline").textContent = `Seed by seed, to: ${data.baseline}. The line is no difference.`;
  page.options(
    "against",
    Object.entries(comparison.axes()).map(([name, [text]]) => [name, text]),
    (name) => {
      comparison.axis = name;
      comparison.drawCurves();
    },
  );
  page.options(
    "metric",
    data.table.metrics.map(([, name], index) => [String(index), name]),
    (index) => {
      comparison.metric = Number(index);
      comparison.drawDifferences();
    },
  );
  page.prepare(data.figures);
  const redraw = () => {
    comparison.drawCurves();
    comparison.drawDifferences();
  };
  page.choices("variations", data.variations, comparison.hidden, redraw, comparison.runs);
  comparison.drawCurves();
  comparison.drawDifferences();
  comparison.drawTable();
  const said =
    "Lines are means over seeds, shaded are 95% intervals; numbers are those of the variations above.";
  for (const name of Object.keys(data.curves)) await page.show(name, page.byId("place-curves"), said);
  await page.show("differences", page.byId("place-differences"), "Mean difference and its 95% interval.");
  page.ready();
};
