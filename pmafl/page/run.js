// The page of a run: a slider over its rounds moves the map, the round's division, the curves and the spreads.
"use strict";

// ---- curves and spreads ----

run.axes = () => {
  const {points} = run.part,
    found = {round: ["rounds", "round", Array.from(points.round, (round) => round + 1)]};
  if (run.head.counts_energy) {
    found.seconds = ["seconds", "time since the start (s)", Array.from(points.seconds)];
    found.joules = ["joules", "energy of all devices since the start (J)", Array.from(points.joules)];
  }
  return found;
};

run.drawCurves = () => {
  const {points} = run.part,
    [, label, x] = run.axes()[run.axis];
  const seen = [...points.accuracy.keys()].filter((i) => Number.isFinite(points.accuracy[i]));
  const pick = (values, scale = 1) => seen.map((i) => scale * values[i]);
  const {factor, unit} = run.head.score;
  const accuracy = pick(points.accuracy, factor),
    spread = pick(points.accuracy_std, factor);
  const learning = {
    x: seen.map((i) => x[i]),
    accuracy,
    worst: pick(points.worst_tenth_accuracy, factor),
    low: accuracy.map((v, i) => Math.max(v - spread[i], 0)),
    high: accuracy.map((v, i) => Math.min(v + spread[i], unit === "%" ? 100 : Infinity)),
    loss: pick(points.loss),
  };
  const budget = run.head.mean_budget_j;
  const gap = Array.from(points.gap, (value, i) =>
    value === 0 ? 0 : (100 * value) / Math.abs(points.lower_bound[i]),
  );
  const rounds = {
    x,
    samples: Array.from(points.scheduled_samples),
    mean_j: Array.from(points.mean_energy_j),
    worst_j: Array.from(points.worst_energy_j),
    budget_j: x.map(() => budget),
    mean_q: Array.from(points.mean_queue_j),
    max_q: Array.from(points.max_queue_j),
    gap,
  };
  for (const name of run.head.curves) {
    page.fill(name, "learning", learning);
    page.fill(name, "rounds", rounds);
    page.plot(name).below[0].axis_label = label;
  }
  run.drawCursor();
};

run.drawCursor = () => {
  const point = run.pointOf.get(run.round());
  const x = run.axes()[run.axis][2];
  for (const name of run.head.curves) {
    const line = page.model(name, "cursor");
    if (line) line.location = point === undefined ? null : x[point];
  }
  for (const name of run.head.stories) {
    const line = page.model(name, "cursor");
    if (line) line.location = run.round() + 1;
  }
};

run.drawSpreads = () => {
  for (const name of run.head.spreads) {
    const values = Array.from(run.values(name.replace("spread-", ""), run.frame)).filter(Number.isFinite);
    let [low, high] = run.extent(values);
    if (name !== "spread-accuracy") low = Math.min(low, 0);
    const BINS = 20,
      width = (high - low) / BINS,
      top = new Array(BINS).fill(0);
    for (const value of values) top[Math.min(BINS - 1, Math.floor((value - low) / width))]++;
    page.fill(name, "bins", {
      left: top.map((_, i) => low + i * width),
      right: top.map((_, i) => low + (i + 1) * width),
      top,
    });
  }
};

// ---- moving ----

run.draw = () => {
  run.drawMap();
  run.drawDivision();
  run.drawHappened();
  run.drawReasons();
  run.drawCursor();
  run.drawSpreads();
  const words = run.wordsOf.get(run.round());
  if (run.device !== null && words) run.drawStory();
};

run.go = (frame) => {
  run.frame = Math.max(0, Math.min(run.part.frames.length - 1, frame));
  page.byId("slider").value = run.frame + 1;
  if (run.waiting) return;
  run.waiting = true;
  requestAnimationFrame(() => {
    run.waiting = false;
    run.draw();
  });
};

run.play = (on) => {
  clearInterval(run.ticking);
  const button = page.byId("play");
  button.textContent = on ? "stop" : "play";
  button.setAttribute("aria-pressed", String(on));
  if (!on) return;
  const last = () => run.part.frames.length - 1;
  if (run.frame >= last()) run.go(0);
  const STEP_MS = 250;
  run.ticking = setInterval(() => (run.frame >= last() ? run.play(false) : run.go(run.frame + 1)), STEP_MS);
};

run.tapMap = (event) => {
  const plot = page.shown.get("map").frame,
    REACH_PX = 18;
  const sx = plot.x_scale.v_compute(Float64Array.from(run.devices.x_m)),
    sy = plot.y_scale.v_compute(Float64Array.from(run.devices.y_m));
  const x = plot.x_scale.compute(event.x),
    y = plot.y_scale.compute(event.y);
  let best = null,
    least = REACH_PX;
  for (let i = 0; i < run.count; i++) {
    const far = Math.hypot(sx[i] - x, sy[i] - y);
    if (far < least) [best, least] = [i, far];
  }
  if (best !== null) run.choose(best);
};

run.tapCurve = (event) => {
  const x = run.axes()[run.axis][2],
    {round} = run.part.points;
  let best = 0;
  for (let i = 1; i < x.length; i++) if (Math.abs(x[i] - event.x) < Math.abs(x[best] - event.x)) best = i;
  let frame = 0;
  while (frame + 1 < run.part.frames.length && run.part.frames[frame + 1] <= round[best]) frame++;
  run.go(frame);
};

// ---- the fixed parts ----

run.describe = () => {
  const {head, part} = run,
    {points} = part,
    last = points.round.length - 1;
  page.title(head.name, head.line);
  const done = last < 0 ? 0 : points.round[last] + 1;
  const cards = [[`${page.number(done)} of ${page.number(head.rounds)}`, "rounds done"]];
  const word = head.score.title.toLowerCase();
  const tested = [...points.accuracy.keys()].filter((i) => Number.isFinite(points.accuracy[i])).at(-1);
  if (tested !== undefined)
    cards.push(
      [run.score(points.accuracy[tested]), `${word}, mean over devices`],
      [run.score(points.worst_tenth_accuracy[tested]), `${word}, worst tenth of the devices`],
    );
  if (last >= 0) {
    const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
    cards.push([
      page.number(mean(points.scheduled), 3),
      `devices per round, of ${page.number(head.total_devices)}`,
    ]);
    if (head.counts_energy)
      cards.push(
        [
          `${page.number(points.mean_energy_j[last])} J`,
          `per device and round; the budget is ${page.number(head.mean_budget_j)} J`,
        ],
        [`${page.number(points.worst_energy_j[last])} J`, "per round, the device that spent most"],
      );
  }
  page.cards(cards);
  page.notes(head.notes);
};

run.controls = () => {
  run.kinds = run.colours();
  run.colour = run.kinds[run.colour] ? run.colour : Object.keys(run.kinds)[0];
  const kinds = Object.entries(run.kinds).map(([name, kind]) => [name, kind.label]);
  page.options("colour", kinds, null, run.colour);
  const axes = Object.entries(run.axes()).map(([name, [text]]) => [name, text]);
  page.options("against", axes, null, run.axis);
  page.byId("slider").max = Math.max(1, run.part.frames.length);
};

run.listen = () => {
  page.byId("slider").addEventListener("input", (event) => run.go(event.target.value - 1));
  page.byId("play").addEventListener("click", () => run.play(page.byId("play").textContent === "play"));
  page.byId("colour").addEventListener("change", (event) => {
    run.colour = event.target.value;
    run.drawMap();
  });
  page.byId("against").addEventListener("change", (event) => {
    run.axis = event.target.value;
    run.drawCurves();
  });
  page.byId("device").addEventListener("change", (event) => {
    const found = run.place.get(Number(event.target.value));
    if (found !== undefined && event.target.value !== "") run.choose(found);
    else page.byId("story-hint").textContent = "There is no such device on this page.";
  });
};

run.open = async (data) => {
  run.start(data);
  const {head} = run;
  run.describe();
  page.list("meaning", Object.entries(head.glossary));
  page.list("again", head.again);
  page.byId("settings").textContent = head.settings;
  run.controls();
  run.listen();
  page.byId("device").max = head.total_devices - 1;
  if (!run.part.frames.length) {
    page.byId("happened").textContent = "No round is done yet.";
    page.ready();
    return;
  }
  page.prepare(head.figures);
  page.square("map", "place-map");
  run.frame = run.part.frames.length - 1;
  page.byId("slider").value = run.frame + 1;
  run.drawCurves();
  run.draw();
  const show = (name, place) => page.show(name, page.byId(place), head.meanings[name]);
  (await show("map", "place-map")).on_event("tap", run.tapMap);
  if (head.figures.division) await show("division", "place-division");
  for (const name of head.curves) (await show(name, "place-curves")).on_event("tap", run.tapCurve);
  for (const name of head.spreads) await show(name, "place-spread");
  run.drawLabels(); // which would hide each other is known only now
  page.ready();
};
