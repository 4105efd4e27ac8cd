// The story of one device on the page of a run.
"use strict";

run.choose = async (device) => {
  run.device = device;
  page.byId("device").value = run.devices.number[device];
  page.byId("story-body").hidden = false;
  page.byId("story-hint").textContent = "";
  run.drawChosen();
  run.drawStory();
  await run.storyFigures();
};

run.storyFigures = () =>
  (run.embeddingStory ??= (async () => {
    for (const name of run.head.stories)
      await page.show(name, page.byId("place-story"), run.head.meanings[name]);
  })());

run.drawStory = () => {
  const {devices, part, head, device: at} = run;
  if (at === null || !part.frames.length) return;
  const mine = [],
    spent = [],
    queue = [],
    budget = [],
    x = [];
  let total = 0,
    backlog = head.queue_start_j;
  for (let frame = 0; frame < part.frames.length; frame++) {
    for (let entry = run.starts[frame]; entry < run.starts[frame + 1]; entry++) {
      if (part.turns.device[entry] !== at) continue;
      mine.push([part.frames[frame] + 1, entry]);
      total += run.energy(entry);
      backlog += run.energy(entry);
    }
    if (run.every) backlog = Math.max(backlog - devices.budget_j[at], 0);
    else {
      const known = run.after(frame);
      [total, backlog] = [known.spent[at], known.queue[at]];
    }
    x.push(part.frames[frame] + 1);
    spent.push(total);
    queue.push(backlog);
    budget.push(devices.budget_j[at] * (part.frames[frame] + 1));
  }
  const ofTable = (table, change) => ({
    x: Array.from(table.rounds, (round) => round + 1),
    y: Array.from(table.rounds, (_, i) => change(table.values[i * run.count + at])),
  });
  const gain = ofTable(part.gain, run.decibel),
    accuracy = ofTable(part.accuracy, (value) => head.score.factor * value);
  const turns = mine.map(([round]) => round);
  const column = (name, scale) => mine.map(([, entry]) => scale * part.turns[name][entry]);
  const data = {
    "story-gain": {x: gain.x, gain: gain.y},
    "story-share": {
      x: turns,
      share: head.counts_energy ? column("bandwidth_share", 100) : turns.map(() => 1),
    },
    "story-clock": {x: turns, clock: column("frequency_hz", 1e-9)},
    "story-power": {x: turns, power: column("power_w", 1)},
    "story-energy": {x, spent, budget},
    "story-queue": {x, queue},
    "story-accuracy": {x: accuracy.x, accuracy: accuracy.y},
    "story-loss": {x: turns, loss: column("train_loss", 1)},
  };
  for (const name of head.stories) page.fill(name, "story", data[name]);
  const distance = Math.hypot(devices.x_m[at], devices.y_m[at]),
    last = x.length - 1;
  const after = run.after(last);
  const facts = [
    ["place", head.federation ? "unknown" : `${page.number(distance, 3)} m from the server`],
    ["samples", page.number(devices.samples[at])],
    ["turns", `${page.number(after.turns[at])} of ${page.number(x[last])} rounds so far`],
  ];
  if (head.counts_energy)
    facts.push(
      [
        "limits",
        `clock up to ${page.number(devices.max_frequency_hz[at] / 1e9, 3)} GHz, power up to ${page.number(devices.max_power_w[at], 3)} W`,
      ],
      [
        "energy",
        `${page.number(spent[last])} J spent, ${page.number((100 * spent[last]) / budget[last], 3)}% of its budget of ${page.number(devices.budget_j[at])} J per round`,
      ],
      ["queue", `${page.number(queue[last])} J at the end`],
    );
  if (accuracy.y.length)
    facts.push([
      head.score.title.toLowerCase(),
      `${page.number(accuracy.y.at(-1))}${head.score.unit} at the last test`,
    ]);
  const words = run.wordsOf.get(run.round()),
    index = words ? words[0].indexOf(at) : -1;
  if (index >= 0) facts.push([`round ${run.round() + 1}`, words[1][index]]);
  page.list("story-facts", facts);
  const MOST = 500,
    receives = devices.received_s[at] > 0;
  const rows = mine
    .slice(-MOST)
    .map(([round, entry]) => [
      round,
      page.percent(part.turns.bandwidth_share[entry], 2),
      ...(receives ? [page.number(devices.received_s[at])] : []),
      page.number(part.turns.compute_time_s[entry]),
      page.number(part.turns.upload_time_s[entry]),
      page.number(part.turns.frequency_hz[entry] / 1e9),
      page.number(part.turns.power_w[entry]),
      page.number(part.turns.compute_energy_j[entry]),
      page.number(part.turns.upload_energy_j[entry]),
      page.number(part.turns.energy_j[entry]),
      page.number(part.turns.train_loss[entry]),
    ]);
  page
    .byId("story-table")
    .replaceChildren(
      page.table(rows, [
        "round",
        "band",
        ...(receives ? ["receives (s)"] : []),
        "computes (s)",
        "uploads (s)",
        "clock (GHz)",
        "power (W)",
        "compute (J)",
        "upload (J)",
        "in all (J)",
        "training loss",
      ]),
    );
  run.drawCursor();
};
