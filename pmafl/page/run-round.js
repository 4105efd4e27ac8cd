// One round on the page of a run: the map, the division of band and deadline, and who was left out.
"use strict";

run.entries = () => {
  const found = [];
  for (let entry = run.starts[run.frame]; entry < run.starts[run.frame + 1]; entry++) found.push(entry);
  return found;
};

run.drawMap = () => {
  const kinds = run.kinds,
    kind = kinds[run.colour],
    values = run.values(run.colour, run.frame);
  const {x_m, y_m, number} = run.devices,
    {turns} = run.part;
  const state = new Array(run.count).fill("left out");
  const entries = run.entries();
  for (const entry of entries)
    state[turns.device[entry]] = run.head.counts_energy
      ? `scheduled, ${page.percent(turns.bandwidth_share[entry])} of the band`
      : "scheduled";
  const [low, high] = (kind.bounds ??= kind.range());
  const mapper = page.model("map", "colours");
  if (mapper.low !== low || mapper.high !== high) mapper.setv({low, high});
  if (page.model("map", "bar").title !== kind.title) {
    page.model("map", "bar").title = kind.title;
    page.model("map", "tips").tooltips = [
      ["device", "@device"],
      [kind.title, "@value{0.[000]}"],
      ["this round", "@state"],
    ];
  }
  page.fill("map", "devices", {
    x: x_m,
    y: y_m,
    value: values,
    device: number,
    state,
  });
  const at = (values) => (entry) => values[turns.device[entry]];
  page.fill("map", "taken", {
    x: entries.map(at(x_m)),
    y: entries.map(at(y_m)),
    size: entries.map((entry) => 14 + 40 * Math.sqrt(Math.max(turns.bandwidth_share[entry], 0))),
  });
  run.drawLabels();
  run.drawChosen();
};

run.drawLabels = () => {
  const {turns} = run.part;
  const at = (values) => (entry) => values[turns.device[entry]];
  const {x_m, y_m} = run.devices;
  const labelled = run.head.counts_energy ? run.labelled(run.entries()) : [];
  const SMALL = 0.0995; // shows as 9.9%, not as 10%
  page.fill("map", "shares", {
    x: labelled.map(at(x_m)),
    y: labelled.map(at(y_m)),
    share: labelled.map((entry) => {
      const share = turns.bandwidth_share[entry];
      return page.percent(share, share < SMALL ? 1 : 0);
    }),
  });
};

// Those of the scheduled devices whose labels hide no other, the largest shares first.
run.labelled = (entries) => {
  const frame = page.shown.get("map")?.frame,
    {turns} = run.part,
    taken = [],
    found = [];
  const WIDTH_PX = 44,
    HEIGHT_PX = 14,
    MOST = 60;
  if (!frame) return found;
  for (const entry of [...entries].sort((a, b) => turns.bandwidth_share[b] - turns.bandwidth_share[a])) {
    const x = frame.x_scale.compute(run.devices.x_m[turns.device[entry]]),
      y = frame.y_scale.compute(run.devices.y_m[turns.device[entry]]);
    if (taken.some((other) => Math.abs(other[0] - x) < WIDTH_PX && Math.abs(other[1] - y) < HEIGHT_PX))
      continue;
    taken.push([x, y]);
    if (found.push(entry) === MOST) break;
  }
  return found;
};

run.drawChosen = () => {
  const at = run.device;
  page.fill(
    "map",
    "chosen",
    at === null ? {x: [], y: []} : {x: [run.devices.x_m[at]], y: [run.devices.y_m[at]]},
  );
};

run.drawDivision = () => {
  const {turns} = run.part;
  const bars = {bottom: [], top: [], received: [], computed: [], done: [], device: [], energy: []};
  const names = {y: [], name: []};
  const LEAST_NAMED = 3.9; // percent: lower bars have no room for a name
  let height = 0;
  for (const entry of run.entries()) {
    const share = 100 * turns.bandwidth_share[entry];
    const received = run.devices.received_s[turns.device[entry]];
    const computed = received + turns.compute_time_s[entry];
    const number = run.devices.number[turns.device[entry]];
    bars.bottom.push(height);
    bars.top.push(height + share);
    bars.received.push(received);
    bars.computed.push(computed);
    bars.done.push(computed + turns.upload_time_s[entry]);
    bars.device.push(number);
    bars.energy.push(run.energy(entry));
    if (share >= LEAST_NAMED) {
      names.y.push(height + share / 2);
      names.name.push(`device ${number}`);
    }
    height += share;
  }
  page.fill("division", "bars", bars);
  page.fill("division", "names", names);
};

run.drawHappened = () => {
  const round = run.round(),
    point = run.pointOf.get(round),
    {points} = run.part;
  const rounds = run.head.rounds,
    words = [];
  page.byId("slider").setAttribute("aria-valuetext", `round ${round + 1} of ${rounds}`);
  page.byId("round").textContent = `${round + 1} of ${rounds}`;
  const taken = run.starts[run.frame + 1] - run.starts[run.frame];
  words.push(`Round ${round + 1}: ${page.number(taken)} of ${page.number(run.count)} devices were scheduled`);
  if (point !== undefined) {
    words.push(`${page.number(points.scheduled_samples[point])} samples`);
    if (run.head.counts_energy)
      words.push(
        `energy so far ${page.number(points.mean_energy_j[point])} J per device and round, the worst device ${page.number(points.worst_energy_j[point])} J`,
      );
    if (Number.isFinite(points.accuracy[point]))
      words.push(
        `${run.head.score.title.toLowerCase()} ${run.score(points.accuracy[point])}, worst tenth ${run.score(points.worst_tenth_accuracy[point])}`,
      );
  }
  const failed = run.part.failed[round];
  if (failed)
    words.push(
      `failed, so that no update arrived: ${failed.slice(0, 20).join(", ")}${failed.length > 20 ? ", ..." : ""}`,
    );
  page.byId("happened").textContent = words.join("; ") + ".";
};

// Reasons of one kind differ in their numbers alone.
run.kindOf = (sentence) => sentence.replace(/[-+]?\d+(\.\d+)?(e[-+]?\d+)?/g, "…");

run.drawReasons = () => {
  const round = run.round(),
    place = page.byId("reasons"),
    words = run.wordsOf.get(round);
  if (!words) {
    const near = [...run.wordsOf.keys()]
      .filter((known) => run.frameOf.has(known))
      .sort((a, b) => Math.abs(a - round) - Math.abs(b - round))[0];
    if (near === undefined) return place.replaceChildren(page.element("p", "The page has no reasons."));
    const button = page.element("button", `go to round ${near + 1}`, {type: "button", class: "small"});
    button.addEventListener("click", () => run.go(run.frameOf.get(near)));
    place.replaceChildren(
      page.element("p", `The page holds the reasons of every ${run.head.steps.reasons}th round.`),
      button,
    );
    return;
  }
  const groups = new Map(),
    [devices, sentences] = words;
  sentences.forEach((sentence, index) => {
    const kind = run.kindOf(sentence);
    if (!groups.has(kind)) groups.set(kind, []);
    groups.get(kind).push([devices[index], sentence]);
  });
  if (!groups.size) return place.replaceChildren(page.element("p", "Nobody was left out."));
  const parts = [...groups]
    .sort((a, b) => b[1].length - a[1].length)
    .map(([kind, members]) => {
      const part = page.element("details");
      part.append(
        page.element(
          "summary",
          `${page.number(members.length)} ${members.length === 1 ? "device" : "devices"}: ${kind}`,
        ),
      );
      part.addEventListener("toggle", () => {
        if (!part.open || part.children.length > 1) return;
        const MOST = 300;
        for (const [device, sentence] of members.slice(0, MOST)) {
          const line = page.element("p");
          const button = page.element("button", `device ${run.devices.number[device]}`, {
            type: "button",
            class: "small",
          });
          button.addEventListener("click", () => run.choose(device));
          line.append(button, ` ${sentence}`);
          part.append(line);
        }
        if (members.length > MOST) part.append(page.element("p", `and ${members.length - MOST} more`));
      });
      return part;
    });
  place.replaceChildren(...parts);
};
