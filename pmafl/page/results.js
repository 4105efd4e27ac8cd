// The page of the paper's claims: which of them hold, and the curves of a figure that a person chooses.
"use strict";

const results = {figure: 0, which: "all", hidden: new Set()};

results.value = ({number, half_width, unit}) => {
  if (number === null) return "–";
  const width = half_width === null ? "" : ` ± ${page.number(half_width, 2)}`;
  return `${page.number(number, 3)}${width} ${unit ?? ""}`.trim();
};

// A sign beside the word: colours alone tell nothing to some.
results.verdict = (word) => {
  const signs = {reproduced: "✔", holds: "✔", "not reproduced": "✘", "does not hold": "✘"};
  return `${signs[word] ?? "•"} ${word}`;
};

// The figure that a claim is about, as files are named; -1 where it has no curves here.
results.figureOf = ({figure, dataset, reading}) => {
  const name = [figure, dataset, reading === "chosen" ? "" : reading].filter(Boolean).join("-");
  return results.data.shown.findIndex((shown) => shown.name === name);
};

results.drawClaims = () => {
  const chosen = results.data.claims.filter(
    (claim) => results.which === "all" || claim.verdict === results.which,
  );
  page.byId("count").textContent = `${chosen.length} of ${results.data.claims.length}`;
  const rows = chosen.map((claim) => {
    const text = page.element("div");
    text.append(page.element("div", claim.claim));
    const why = [claim.remark, claim.reason].filter(Boolean).join("; ");
    if (why || claim.tried.length) {
      const more = page.element("details");
      more.append(page.element("summary", "why, and what else was tried"), page.element("p", why));
      for (const other of claim.tried)
        more.append(
          page.element("p", `${other.what}: ${results.value(other)}, ${other.verdict} ${other.remark}`),
        );
      text.append(more);
    }
    const number = claim.paper === null ? "–" : page.number(claim.paper, 3);
    const where = [claim.where, claim.dataset, claim.reading].filter(Boolean).join(", ");
    const place = page.element("span", where);
    const figure = results.figureOf(claim);
    if (figure >= 0) {
      const button = page.element("button", "its curves", {type: "button", class: "small"});
      button.addEventListener("click", () => {
        results.choose(figure);
        page.byId("h-figures").scrollIntoView();
        page.byId("figure").focus();
      });
      place.append(" ", button);
    }
    return [text, results.verdict(claim.verdict), results.value(claim), number, claim.scale, place];
  });
  const header = ["claim", "verdict", "ours", "paper", "our runs", "where"];
  page.byId("claims").replaceChildren(page.table(rows, header));
};

results.drawFigure = () => {
  const figure = results.data.shown[results.figure];
  if (!figure) return;
  page.byId("command").textContent = figure.command;
  for (const [name, factor] of Object.entries({accuracy: 100, loss: 1})) {
    const scaled = (values) => Array.from(values, (value) => factor * value);
    const lines = figure.curves.map((curve, index) => ({
      index,
      x: Array.from(curve.round),
      mean: scaled(curve[`${name}_mean`]),
      half: scaled(curve[`${name}_half_width`]),
    }));
    page.bands(
      name,
      lines.filter(({index}) => !results.hidden.has(index)),
    );
  }
};

results.choose = (index) => {
  results.figure = index;
  page.byId("figure").value = String(index);
  results.hidden.clear();
  page.choices("lines", results.data.shown[index]?.lines ?? [], results.hidden, results.drawFigure);
  results.drawFigure();
};

results.open = async (data) => {
  results.data = data;
  page.title(data.name, data.line);
  page.list("meaning", Object.entries(data.glossary));
  const verdicts = new Map();
  for (const {verdict} of data.claims) verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
  page.cards([...verdicts].map(([verdict, count]) => [String(count), results.verdict(verdict)]));
  page.options("which", [["all", "all"], ...[...verdicts.keys()].map((name) => [name, name])], (which) => {
    results.which = which;
    results.drawClaims();
  });
  page.options(
    "figure",
    data.shown.map(({name}, index) => [String(index), name]),
    (index) => results.choose(Number(index)),
  );
  page.prepare(data.figures);
  results.drawClaims();
  results.choose(0);
  const said = "Lines are means over seeds, shaded are 95% intervals; numbers are those of the lines above.";
  for (const name of ["accuracy", "loss"]) await page.show(name, page.byId("place-figures"), said);
  page.ready();
};
