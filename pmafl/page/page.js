// What all pages share: unpacking the data, showing Bokeh's figures, the two looks, saving a figure.
// Whatever people named themselves is put into the page as text (textContent), never as HTML.
"use strict";

const page = {
  documents: new Map(), // name of a figure -> Bokeh's document of it
  shown: new Map(), // name of a figure that is on the page -> its view

  // The data of a page, as packing.py wrote it.
  async unpack(bytes) {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const whole = await new Response(stream).arrayBuffer();
    const length = new DataView(whole).getUint32(0, true);
    const first = 8 + length;
    const types = {float32: Float32Array, float64: Float64Array, int32: Int32Array, uint8: Uint8Array};
    return JSON.parse(new TextDecoder().decode(new Uint8Array(whole, 8, length)), (_, value) => {
      if (value === null || typeof value !== "object" || !Array.isArray(value.$)) return value;
      const [offset, size, type] = value.$;
      return new types[type](whole, first + offset, size);
    });
  },

  async embedded() {
    const text = atob(document.getElementById("data").textContent);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return page.unpack(bytes);
  },

  element(tag, text, attributes = {}) {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  },

  byId: (id) => document.getElementById(id),

  // A number as people read it.
  number(value, digits = 4) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-3 || size >= 1e9)) return value.toExponential(digits - 1);
    const whole = Number.isInteger(value) && size < 1e7;
    return value.toLocaleString("en", {maximumSignificantDigits: whole ? 21 : digits});
  },

  percent: (value, digits = 1) => (Number.isFinite(value) ? (100 * value).toFixed(digits) + "%" : "–"),

  // Figures exist before they are shown, so that each is drawn once, with its data.
  prepare(items) {
    const {Document} = Bokeh.require("document");
    Bokeh.set_log_level("error"); // an empty figure has no range, which is no news
    for (const [name, item] of Object.entries(items)) page.documents.set(name, Document.from_json(item));
  },

  // Show a figure in its place, with what it means and two ways to save it under it.
  async show(name, place, meaning) {
    const box = page.element("figure", undefined, {"data-figure": name});
    const canvas = page.element("div", undefined, {class: "drawing", role: "img", "aria-label": meaning});
    const caption = page.element("figcaption");
    caption.append(page.element("span", meaning));
    const saving = page.element("span", undefined, {class: "saving"});
    for (const kind of ["PNG", "SVG"]) {
      const button = page.element("button", kind, {
        type: "button",
        title: `save as ${kind}`,
        "aria-label": `save the figure ${name} as ${kind}`,
      });
      button.addEventListener("click", () => page.save(name, kind.toLowerCase()));
      saving.append(button);
    }
    caption.append(saving);
    box.append(canvas, caption);
    place.append(box);
    const found = page.documents.get(name),
      [plot] = found.all_roots;
    page.paint(plot);
    const views = await Bokeh.embed.add_document_standalone(found, canvas);
    page.shown.set(name, views.get(plot));
    await new Promise((resolve) => setTimeout(resolve)); // let the browser paint it before the next
    return plot;
  },

  // A map is as wide as it is high on a phone, too.
  square(name, place) {
    const COLOUR_BAR_PX = 110,
      plot = page.plot(name);
    plot.height = Math.min(plot.height, page.byId(place).clientWidth + COLOUR_BAR_PX);
  },

  plot: (name) => page.documents.get(name)?.all_roots[0],
  model: (name, part) => page.documents.get(name)?.get_model_by_name(part),

  // Give a source of a figure, if it has it, new columns.
  fill(name, part, columns) {
    const source = page.model(name, part);
    if (source) source.data = columns;
  },

  async save(name, kind) {
    const blob = await page.shown.get(name).export(kind).to_blob();
    const link = page.element("a", undefined, {download: `${name}.${kind}`});
    link.href = URL.createObjectURL(blob);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  },

  // The page's colours, for the figures too.
  paint(plot) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const [ink, faint, grid, paper] = ["--ink", "--faint", "--grid", "--paper"].map(colour);
    plot.setv({background_fill_color: paper, border_fill_color: paper, outline_line_color: grid});
    for (const part of plot.document._all_models.values()) {
      const has = (name) => name in part.properties;
      if (has("axis_label_text_color"))
        part.setv({
          axis_label_text_color: ink,
          major_label_text_color: ink,
          axis_line_color: faint,
          major_tick_line_color: faint,
          minor_tick_line_color: null,
          axis_label_text_font_style: "normal",
        });
      if (has("grid_line_color")) part.grid_line_color = grid;
      if (part.type === "Title") part.setv({text_color: ink, text_font_size: "14px"});
      if (part.type === "Legend") part.label_text_color = ink;
      if (part.type === "ColorBar")
        part.setv({
          major_label_text_color: ink,
          title_text_color: ink,
          background_fill_color: paper,
          title_text_font_style: "normal",
        });
      if (part.name === "cursor") part.line_color = ink;
      if (part.name === "ink")
        for (const glyph of [part.glyph, part.nonselection_glyph, part.selection_glyph])
          if (glyph && glyph.setv) glyph.setv({text_color: {value: ink}});
    }
  },

  look(name) {
    document.documentElement.dataset.look = name;
    page.byId("look").textContent = name === "dark" ? "light look" : "dark look";
    for (const view of page.shown.values()) page.paint(view.model);
  },

  begin() {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    page.look(dark.matches ? "dark" : "light");
    dark.addEventListener("change", (event) => page.look(event.matches ? "dark" : "light"));
    page
      .byId("look")
      .addEventListener("click", () =>
        page.look(document.documentElement.dataset.look === "dark" ? "light" : "dark"),
      );
  },

  title(name, line) {
    document.title = `${name.slice(0, 80)} · pmafl`;
    page.byId("name").textContent = name;
    page.byId("line").textContent = line;
  },

  // What a person should know, as cards of a number and its name.
  cards(entries) {
    const place = page.byId("cards");
    place.replaceChildren(
      ...entries.map(([value, name]) => {
        const card = page.element("div", undefined, {class: "card"});
        card.append(page.element("strong", value), page.element("span", name));
        return card;
      }),
    );
  },

  table(rows, header) {
    const table = page.element("table");
    if (header) {
      const line = page.element("tr");
      line.append(...header.map((text) => page.element("th", text, {scope: "col"})));
      const head = page.element("thead");
      head.append(line);
      table.append(head);
    }
    const body = page.element("tbody");
    for (const row of rows) {
      const line = page.element("tr");
      row.forEach((cell, column) => {
        const made = page.element("td", undefined, {"data-column": header?.[column] ?? ""});
        made.append(cell instanceof Node ? cell : String(cell));
        line.append(made);
      });
      body.append(line);
    }
    table.append(body);
    return table;
  },

  list(id, entries) {
    page
      .byId(id)
      .replaceChildren(
        ...entries.flatMap(([term, text]) => [page.element("dt", term), page.element("dd", text)]),
      );
  },

  // Eight colours that everyone can tell apart, each with four kinds of line.
  style(index) {
    const colours = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888", "#B8A800"];
    const dashes = [[], [8, 4], [2, 3], [8, 3, 2, 3]];
    const dash = dashes[Math.floor(index / colours.length) % dashes.length];
    return {colour: colours[index % colours.length], dash};
  },

  // Lines with intervals around them: for each its number, places, means and half-widths. None is negative.
  bands(name, lines) {
    const columns = {xs: [], ys: [], bands_x: [], bands_y: [], colour: [], dash: [], number: []};
    for (const {index, x, mean, half} of lines) {
      const {colour, dash} = page.style(index);
      const low = x.map((_, i) => Math.max(mean[i] - (half[i] || 0), 0));
      const high = x.map((_, i) => mean[i] + (half[i] || 0));
      columns.xs.push(x);
      columns.ys.push(Array.from(mean));
      columns.bands_x.push([...x, ...[...x].reverse()]);
      columns.bands_y.push([...low, ...high.reverse()]);
      columns.colour.push(colour);
      columns.dash.push(dash);
      columns.number.push(index + 1);
    }
    page.fill(name, "curves", columns);
  },

  // The number of a line in a box of its colour, and its name.
  mark(index, name) {
    const whole = page.element("span");
    const mark = page.element("span", `${index + 1}`, {class: "mark"});
    mark.style.borderColor = page.style(index).colour;
    whole.append(mark, ` ${name}`);
    return whole;
  },

  // A box for each line, to show and hide it.
  choices(id, names, hidden, changed, more = () => []) {
    page.byId(id).replaceChildren(
      ...names.map((name, index) => {
        const line = page.element("div", undefined, {class: "choice"});
        const text = page.element("label");
        const box = page.element("input", undefined, {type: "checkbox"});
        box.checked = !hidden.has(index);
        box.addEventListener("change", () => {
          if (box.checked) hidden.delete(index);
          else hidden.add(index);
          changed();
        });
        text.append(box, page.mark(index, name));
        line.append(text, ...more(index));
        return line;
      }),
    );
  },

  notes(lines) {
    const place = page.byId("notes");
    place.hidden = !lines.length;
    place.replaceChildren(...lines.map((text) => page.element("p", text)));
  },

  // The choices of a select, and what happens when a person takes one.
  options(id, entries, changed, chosen) {
    const select = page.byId(id);
    select.replaceChildren(
      ...entries.map(([value, text]) => {
        const option = page.element("option", text, {value});
        option.selected = value === chosen;
        return option;
      }),
    );
    if (changed) select.addEventListener("change", () => changed(select.value));
  },

  // Everything is drawn.
  ready() {
    document.documentElement.dataset.ready = "yes";
  },

  fail(error) {
    console.error(error);
    const place = page.byId("trouble");
    place.hidden = false;
    place.textContent = `This page could not be shown: ${error && error.message ? error.message : error}`;
  },
};
