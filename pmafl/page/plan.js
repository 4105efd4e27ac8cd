// The page of a plan: sliders over what is free to choose, and the choices that nothing beats.
"use strict";

const plan = {chosen: 0, across: null, up: null};

plan.words = (choice) =>
  plan.data.free
    .filter(([name]) => name in choice)
    .map(([name, text]) => `${text} ${page.number(choice[name])}`)
    .join(", ");

// The choice at these places of the sliders, or the one that agrees with most of them, the moved one first.
plan.find = (wanted, moved) => {
  let best = plan.chosen;
  let most = -1;
  plan.data.choices.forEach(({choice}, index) => {
    let agree = 0;
    for (const [name, value] of Object.entries(wanted))
      if (choice[name] === value) agree += name === moved ? plan.data.free.length : 1;
    if (agree > most) [best, most] = [index, agree];
  });
  return best;
};

plan.drawSliders = () => {
  const place = page.byId("sliders");
  place.replaceChildren(
    ...plan.data.free.map(([name, text, values]) => {
      const line = page.element("label", undefined, {class: "slider"});
      const slider = page.element("input", undefined, {
        type: "range",
        min: 0,
        max: Math.max(values.length - 1, 1),
        "data-name": name,
        "aria-label": text,
      });
      slider.disabled = values.length < 2;
      slider.addEventListener("input", () => {
        const wanted = {...plan.data.choices[plan.chosen].choice, [name]: values[slider.value]};
        plan.choose(plan.find(wanted, name));
      });
      line.append(page.element("span", text), slider, page.element("output"));
      return line;
    }),
  );
};

plan.choose = (index) => {
  plan.chosen = index;
  const {choice, measures, best, meets_goals: meets} = plan.data.choices[index];
  for (const slider of page.byId("sliders").querySelectorAll("input")) {
    const [, , values] = plan.data.free.find(([name]) => name === slider.dataset.name);
    slider.value = Math.max(0, values.indexOf(choice[slider.dataset.name]));
    const said = page.number(choice[slider.dataset.name]);
    slider.setAttribute("aria-valuetext", said);
    slider.nextElementSibling.textContent = said;
  }
  const facts = plan.data.measures.map(([name, text]) => [text, page.number(measures[name])]);
  facts.push(["unbeaten", best ? "yes" : "no, another choice is better in everything"]);
  if (meets !== null && meets !== undefined) facts.push(["meets the goals", meets ? "yes" : "no"]);
  page.list("chosen", facts);
  plan.drawFront();
};

plan.drawFront = () => {
  const {choices, recommended} = plan.data;
  const at = (indices) => ({
    x: indices.map((index) => choices[index].measures[plan.across] ?? NaN),
    y: indices.map((index) => choices[index].measures[plan.up] ?? NaN),
    said: indices.map((index) => plan.words(choices[index].choice)),
  });
  const all = [...choices.keys()];
  page.fill("front", "beaten", at(all.filter((index) => !choices[index].best)));
  page.fill("front", "best", at(all.filter((index) => choices[index].best)));
  page.fill("front", "recommended", at(recommended === null ? [] : [recommended]));
  page.fill("front", "chosen", at([plan.chosen]));
  const label = (wanted) => plan.data.measures.find(([name]) => name === wanted)[1];
  page.plot("front").below[0].axis_label = label(plan.across);
  page.plot("front").left[0].axis_label = label(plan.up);
};

plan.tap = (event) => {
  const {frame} = page.shown.get("front");
  const REACH_PX = 25;
  const place = (x, y) => [frame.x_scale.compute(x), frame.y_scale.compute(y)];
  const [x, y] = place(event.x, event.y);
  let best = null;
  let least = REACH_PX;
  plan.data.choices.forEach(({measures}, index) => {
    const [a, b] = place(measures[plan.across] ?? NaN, measures[plan.up] ?? NaN);
    const far = Math.hypot(a - x, b - y);
    if (far < least) [best, least] = [index, far];
  });
  if (best !== null) plan.choose(best);
};

plan.describe = () => {
  const {data} = plan;
  const shown = plan.words(data.choices[data.shown].choice);
  page.byId("rings-of").textContent = `For the choice that was looked at device by device: ${shown}.`;
  const goals = data.goals.map(([goal, met, reached]) =>
    page.element("p", `${met ? "✔" : "✘"} ${goal}: ${reached}`),
  );
  const none = page.element("p", "No goal was stated.");
  page.byId("goals").replaceChildren(page.element("strong", "Goals"), ...(goals.length ? goals : [none]));
  const slack = data.slack.map(([name, part]) =>
    page.element("p", `The goals still hold with ${page.percent(part, 0)} of the ${name}.`),
  );
  const prices = data.prices.map((sentence) => page.element("p", sentence));
  page.byId("prices").replaceChildren(page.element("strong", "What more would bring"), ...prices, ...slack);
  const unable = data.unable.filter(([count]) => count);
  const able = page.element(
    "p",
    `${page.number(data.taking_part)} of ${page.number(data.devices)} devices take part.`,
  );
  const others = unable.map(([count, reason]) =>
    page.element("p", `${page.number(count)} do not: ${reason}.`),
  );
  page.byId("unable").replaceChildren(able, ...others);
  const rows = data.rings.map((ring) => [
    `${page.number(ring.from_m, 3)} – ${page.number(ring.to_m, 3)}`,
    page.number(ring.devices),
    page.number(ring.taking_part),
    page.number(ring.turns_per_day, 3),
    page.number(ring.energy_per_device_round_j, 3),
    page.number(ring.median_battery_days, 4),
  ]);
  const header = ["ring (m)", "devices", "take part", "turns per day", "J per round", "battery (days)"];
  page.byId("ring-table").replaceChildren(page.table(rows, header));
  const column = (name) => data.rings.map((ring) => ring[name]);
  page.fill("rings", "annuli", {
    inner: column("from_m"),
    outer: column("to_m"),
    share: data.rings.map((ring) => (100 * ring.taking_part) / Math.max(ring.devices, 1)),
    devices: column("devices"),
    turns: column("turns_per_day"),
    energy: column("energy_per_device_round_j"),
  });
};

plan.open = async (data) => {
  plan.data = data;
  page.title(data.name, data.line);
  page.list("meaning", Object.entries(data.glossary));
  page.cards([
    [`${page.number(data.taking_part)} of ${page.number(data.devices)}`, "devices can take part"],
    [page.number(data.choices.filter(({best}) => best).length), `unbeaten choices of ${data.choices.length}`],
    ...data.goals.map(([goal, met, reached]) => [met ? "✔ met" : "✘ not met", `${goal}: ${reached}`]),
  ]);
  const names = data.measures.map(([name]) => name);
  const wanted = (name, other) => (names.includes(name) ? name : other);
  plan.up = wanted("samples_per_day", names[0]);
  plan.across = wanted("battery_days", wanted("energy_per_device_round_j", names[0]));
  for (const which of ["across", "up"])
    page.options(
      which,
      data.measures,
      (name) => {
        plan[which] = name;
        plan.drawFront();
      },
      plan[which],
    );
  page.prepare(data.figures);
  plan.drawSliders();
  plan.describe();
  plan.choose(data.recommended ?? data.shown);
  page.byId("take").addEventListener("click", () => plan.choose(data.recommended ?? data.shown));
  if (data.recommended === null) page.byId("take").textContent = "the choice that is looked at closely";
  const front = await page.show(
    "front",
    page.byId("place-front"),
    "Each point is a choice; filled ones nothing beats.",
  );
  front.on_event("tap", plan.tap);
  page.square("rings", "place-rings");
  await page.show(
    "rings",
    page.byId("place-rings"),
    "Rings around the server, in the colour of how many take part.",
  );
  page.ready();
};
