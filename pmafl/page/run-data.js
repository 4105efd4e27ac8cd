// What the page of a run knows: its rounds, which may grow, and what follows from them for every device.
"use strict";

const run = {frame: 0, colour: "participation", axis: "round", device: null, every: true};

const joined = (a, b) => {
  const both = new a.constructor(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
};

run.start = (data) => {
  run.head = data.head;
  run.devices = data.head.devices;
  run.count = run.devices.number.length;
  run.place = new Map([...run.devices.number].map((number, index) => [number, index]));
  run.part = null;
  run.keys = new Map(); // states of some rounds, from which others follow
  for (const part of [data.part, ...(data.more ?? [])]) run.take(part);
};

run.take = (part) => {
  if (!run.part) run.part = part;
  else {
    const grow = (mine, more) => {
      for (const [name, value] of Object.entries(more)) {
        if (ArrayBuffer.isView(value)) mine[name] = joined(mine[name], value);
        else if (Array.isArray(value)) mine[name] = [...mine[name], ...value];
        else grow((mine[name] ??= {}), value);
      }
    };
    grow(run.part, part);
  }
  const {part: all} = run;
  run.every = !all.states;
  run.starts = new Int32Array(all.counts.length + 1);
  all.counts.forEach((count, index) => {
    run.starts[index + 1] = run.starts[index] + count;
  });
  run.frameOf = new Map([...all.frames].map((round, index) => [round, index]));
  run.pointOf = new Map([...all.points.round].map((round, index) => [round, index]));
  run.wordsOf = new Map(all.reasons);
};

run.round = () => run.part.frames[run.frame] ?? 0;
run.energy = (entry) => run.part.turns.energy_j[entry];

// Queue, energy and turns of all devices after a round. The queues follow q <- max(q + E - budget, 0).
run.after = (frame) => {
  const {count, part, devices} = run;
  if (!run.every) {
    const cut = (values) => values.subarray(frame * count, (frame + 1) * count);
    return {queue: cut(part.states.queue_j), spent: cut(part.states.spent_j), turns: cut(part.states.turns)};
  }
  const KEY = 50;
  let from = frame;
  while (from >= 0 && !run.keys.has(from)) from--;
  const before = run.keys.get(from);
  const copy = before
    ? {queue: before.queue.slice(), spent: before.spent.slice(), turns: before.turns.slice()}
    : {
        queue: new Float64Array(count).fill(run.head.queue_start_j),
        spent: new Float64Array(count),
        turns: new Float64Array(count),
      };
  for (let index = from + 1; index <= frame; index++) {
    for (let entry = run.starts[index]; entry < run.starts[index + 1]; entry++) {
      const device = part.turns.device[entry],
        energy = run.energy(entry);
      copy.queue[device] += energy;
      copy.spent[device] += energy;
      copy.turns[device] += 1;
    }
    for (let device = 0; device < count; device++)
      copy.queue[device] = Math.max(copy.queue[device] - devices.budget_j[device], 0);
    if (index % KEY === 0 && !run.keys.has(index))
      run.keys.set(index, {queue: copy.queue.slice(), spent: copy.spent.slice(), turns: copy.turns.slice()});
  }
  return copy;
};

// The last round of a table (gains, accuracies) that is not after this one, and its numbers.
run.known = (table, round) => {
  let found = -1;
  for (let i = 0; i < table.rounds.length && table.rounds[i] <= round; i++) found = i;
  return found < 0
    ? null
    : {round: table.rounds[found], values: table.values.subarray(found * run.count, (found + 1) * run.count)};
};

// A score as people read it.
run.score = (value, digits = 2) => {
  const {factor, unit} = run.head.score;
  return unit === "%" ? page.percent(value, digits) : page.number(factor * value);
};

run.decibel = (gain) => (gain > 0 ? 10 * Math.log10(gain) : NaN);

// ---- what the map can be coloured by ----

run.colours = () => {
  const {part, head} = run,
    found = {};
  const most = (values) => values.reduce((a, b) => (b > a ? b : a), 0);
  found.participation = {
    label: "turns",
    title: "rounds it took part in (%)",
    range: () => [0, Math.max(1, most(run.values("participation", part.frames.length - 1).slice()))],
  };
  if (head.counts_energy) {
    found.energy = {
      label: "energy against budget",
      title: "energy spent against the budget so far (%; 200 and above look the same)",
      range: () => [0, 200],
    };
    found.queue = {
      label: "queue",
      title: "energy beyond the budget, the queue (J)",
      range: () => [0, Math.max(1e-12, most(part.points.max_queue_j))],
    };
  }
  if (part.gain.rounds.length)
    found.gain = {
      label: "gain",
      title: "channel gain (dB)",
      range: () => run.extent([...part.gain.values].map(run.decibel)),
    };
  if (part.accuracy.rounds.length)
    found.accuracy = {
      label: head.score.title.toLowerCase(),
      title: head.score.label,
      range: () => run.extent([...part.accuracy.values].map((v) => head.score.factor * v)),
    };
  return found;
};

run.extent = (values) => {
  let low = Infinity,
    high = -Infinity;
  for (const value of values)
    if (Number.isFinite(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  return low < high ? [low, high] : Number.isFinite(low) ? [low - 1, low + 1] : [0, 1];
};

run.values = (what, frame) => {
  const round = run.part.frames[frame],
    found = new Float64Array(run.count);
  if (what === "gain" || what === "accuracy") {
    const table = run.known(run.part[what], round);
    if (!table) return found.fill(NaN);
    return found.map((_, i) =>
      what === "gain" ? run.decibel(table.values[i]) : run.head.score.factor * table.values[i],
    );
  }
  const {queue, spent, turns} = run.after(frame);
  if (what === "queue") return queue;
  const rounds = round + 1;
  if (what === "energy") return found.map((_, i) => (100 * spent[i]) / (run.devices.budget_j[i] * rounds));
  return found.map((_, i) => (100 * turns[i]) / rounds);
};
