// A page that grows with its run: it asks the server it came from for the rounds that it lacks.
"use strict";

run.live = async (data) => {
  const LOOK_MS = 700;
  const say = (text) => {
    const place = page.byId("live");
    place.hidden = false;
    if (place.textContent !== text) place.textContent = text;
  };
  let {records, rounds} = data;
  const started = rounds > 0;
  const told = (finished) =>
    finished ? "live: the run is finished" : `live: ${rounds} of ${run.head.rounds} rounds`;
  await run.open(data);
  for (const part of data.more) run.grow(part);
  say(told(data.finished));
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    if (document.hidden) continue;
    let answer;
    try {
      answer = await fetch(`rounds?records=${encodeURIComponent(records)}&have=${rounds}`);
      if (answer.status === 205) return location.reload();
      if (!answer.ok) {
        say(`live: ${await answer.text()}`);
        continue;
      }
      const found = await page.unpack(new Uint8Array(await answer.arrayBuffer()));
      if (!started && found.rounds) return location.reload();
      for (const part of found.more) run.grow(part);
      ({records, rounds} = found);
      say(told(found.finished));
    } catch (error) {
      if (answer) throw error;
      say(
        "live: no answer from the server; the run has ended or was stopped, and the page goes on if it does",
      );
    }
  }
};

// More rounds; whoever looks at the last one sees the new last one.
run.grow = (part) => {
  const follows = run.frame >= run.part.frames.length - 1;
  run.take(part);
  const kinds = Object.keys(run.kinds).join();
  run.kinds = run.colours();
  if (Object.keys(run.kinds).join() !== kinds) run.controls();
  page.byId("slider").max = run.part.frames.length;
  run.describe();
  run.drawCurves();
  if (follows) run.go(run.part.frames.length - 1);
  if (run.device !== null) run.drawStory();
};
