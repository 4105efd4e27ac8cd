// A page that grows with its run: it asks the server it came from for the rounds that it lacks.
"use strict";

run.live = async (data) => {
  const LOOK_MS = 700;
  const say = (text) => {
    const place = page.byId("live");
    place.hidden = false;
    if (place.textContent !== text) place.textContent = text;
  };
  let {records, rounds, finished} = data;
  const told = () =>
    finished ? "live: the run is finished" : `live: ${rounds} of ${run.head.rounds} rounds`;
  // What the server has to say; null where nobody answers, or is killed while he does.
  const ask = async () => {
    try {
      const answer = await fetch(`rounds?records=${encodeURIComponent(records)}&have=${rounds}`);
      const content = answer.status === 200 ? await answer.arrayBuffer() : await answer.text();
      return {status: answer.status, content};
    } catch {
      return null;
    }
  };
  await run.open(data);
  say(told());
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    if (document.hidden) continue;
    const answer = await ask();
    if (answer === null) {
      if (!finished)
        say("live: no answer from the server; the run was stopped, and the page goes on when it does");
      continue;
    }
    if (answer.status === 205) return location.reload();
    if (answer.status !== 200) {
      say(`live: ${answer.content}`);
      continue;
    }
    const found = await page.unpack(new Uint8Array(answer.content));
    for (const part of found.more) run.grow(part);
    ({records, rounds, finished} = found);
    say(told());
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
