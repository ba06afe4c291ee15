// What the page of `program.json` draws, and what it says when it is used: `node program.js PAGE`.
"use strict";

const assert = require("node:assert/strict");
const test = require("node:test");
const { Page, RATIO } = require("./browser.js");

// The page's layout: where the lanes begin, how high the axis is, and how high bars are.
const GUTTER = 176, AXIS = 24, LANE_BAR = 16, QUEUE_BAR = 10;
// Of the whole timeline, which is 10 µs, in 1000 pixels.
const FROM = -100, SHOWN = 10300;
const DONE = "18446744073709551615";

const open = hash => new Page(process.argv[2], hash);
const near = (found, expected, slack, what) =>
  assert.ok(Math.abs(found - expected) <= slack, what + ": " + found + " is not " + expected);

// All that is drawn for commands, from the left to the right, bars of that height only.
function bars(page, height) {
  const colours = new Map(page.data.kinds.map(kind => [page.colourOf(kind), kind]));
  colours.set("pattern of " + page.colourOf("migrate"), "migrate, striped");
  return page.drawn("fillRect")
    .filter(bar => bar.x >= GUTTER && bar.y >= AXIS && bar.height === height && colours.has(bar.colour))
    .map(bar => ({ ...bar, kind: colours.get(bar.colour), middle: bar.x + bar.width / 2, centre: bar.y + height / 2 }));
}
// A command's bar on its lane, by what one is told who points at it.
function barOf(page, id) {
  const bar = bars(page, LANE_BAR).find(bar => pointedAt(page, bar.middle, bar.centre)?.id === id);
  assert.ok(bar, id + " is not in sight");
  return bar;
}
// What the tooltip says of the command there.
function pointedAt(page, x, y) {
  page.pointer("move", x, y);
  const tip = page.element("tip");
  return tip.hidden ? undefined : told(tip);
}
// What is said of a command, in the tooltip or in the panel.
function told(element) {
  const [title] = element.all("h2").map(each => each.textContent);
  const terms = element.all("dt"), texts = element.all("dd");
  assert.equal(terms.length, texts.length);
  const facts = Object.fromEntries(terms.map((term, n) => [term.textContent, texts[n].textContent]));
  return { title, ...facts, id: facts.kind.split(" · id ")[1] };
}
// The id of the selected command, which the address has as well.
function selected(page) {
  const panel = page.element("selection");
  if (!panel.all("h2").length) {
    assert.match(panel.textContent, /^Click a command/);
    return undefined;
  }
  const { id } = told(panel);
  assert.equal(page.address, "#id=" + id);
  return id;
}
const shown = page => page.drawn("fillText").find(text => text.text.endsWith(" shown")).text;
// The time at a pixel, as the axis has it.
function timeAt(page, x) {
  const units = { ns: 1, µs: 1e3, ms: 1e6 };
  const ticks = page.drawn("fillText").filter(text => text.y === AXIS / 2 && text.x >= GUTTER);
  const [first, last] = [ticks.at(0), ticks.at(-1)].map(tick => {
    const [number, unit] = tick.text.split(" ");
    return { x: tick.x - 4, time: number * units[unit] };
  });
  return first.time + (x - first.x) * (last.time - first.time) / (last.x - first.x);
}

test("the axis has the times of the whole trace", () => {
  const page = open();
  assert.equal(shown(page), "10.3 µs shown");
  const ticks = page.drawn("fillText").filter(text => text.y === AXIS / 2 && text.x >= GUTTER);
  assert.deepEqual(ticks.map(tick => tick.text), ["0 µs", "2 µs", "4 µs", "6 µs", "8 µs", "10 µs"]);
  ticks.forEach((tick, n) => near(tick.x - 4, GUTTER + (n * 2000 - FROM) * 1000 / SHOWN, 0.5, tick.text));
});

test("every command is on its lane from when it started to when it ended", () => {
  const page = open();
  const drawn = bars(page, LANE_BAR);
  const labels = page.drawn("fillText").filter(text => text.x === 18);
  assert.deepEqual(labels.map(label => label.text), ["worker 0", "worker 1", "compute", "main", "transfers"]);
  const heads = page.drawn("fillText").filter(text => text.x === 10 && text.y > AXIS).map(text => text.text);
  assert.deepEqual(heads, ["processor", "accelerator", "queues: from enqueued (pale while waiting) to ended"]);
  const expected = [
    ["2", "worker 0", "launch", 500, 2500],
    ["6", "worker 0", "host task", 6500, 8000],
    [DONE, "worker 0", "marker", 10000, 10000],
    ["3", "worker 1", "launch", 600, 2600],
    ["7", "worker 1", "other", 7000, 9000],
    ["1", "compute", "write", 400, 1400],
    ["5", "compute", "migrate, striped", 2800, 3400],
    // Below the migration, which it overlaps.
    ["4", "compute", "launch", 3000, 6000],
  ];
  assert.equal(drawn.length, expected.length);
  drawn.forEach((bar, n) => {
    const [id, lane, kind, from, until] = expected[n];
    const it = pointedAt(page, bar.middle, bar.centre);
    assert.equal(it.id, id);
    assert.equal(bar.kind, kind);
    assert.match(it["ran on"], new RegExp(", " + lane + "$"));
    near(timeAt(page, bar.x), from, 15, "start of " + id);
    // There is a gap before the next, and what takes no time can be seen.
    near(timeAt(page, bar.x + bar.width), until, 20, "end of " + id);
    const label = labels.find(label => label.text === lane);
    near(bar.centre, label.y + (id === "4" ? 20 : 0), 0.5, "height of " + id);
  });
  const names = page.drawn("fillText").filter(text => text.x > GUTTER && text.y > AXIS).map(text => text.text);
  assert.deepEqual(names, ["blur", "check", "blur", "sum", "load", "migrate…", "join"]);
  // What failed has a red frame, and a cross in it.
  const failed = page.drawn("strokeRect").filter(frame => frame.colour === page.colour("--bad"));
  assert.equal(failed.length, 1);
  near(timeAt(page, failed[0].x), 6500, 25, "the frame");
  assert.equal(page.drawn("stroke").filter(stroke => stroke.colour === page.colour("--bad")).length, 1);
});

test("every command is in its queue from when it was enqueued, pale until it started", () => {
  const page = open();
  const drawn = bars(page, QUEUE_BAR).map(bar => [bar.alpha < 0.5 ? "waits" : "runs", timeAt(page, bar.x), timeAt(page, bar.x + bar.width)]);
  const expected = [
    ["waits", 100, 500], ["runs", 500, 2500],
    ["waits", 150, 600], ["runs", 600, 2600],
    ["waits", 200, 3000], ["runs", 3000, 6000],
    ["waits", 350, 7000], ["runs", 7000, 9000],
    // It takes no time.
    ["waits", 400, 10000],
    ["waits", 0, 400], ["runs", 400, 1400],
    ["waits", 2500, 2800], ["runs", 2800, 3400],
  ];
  // What failed is red.
  const failed = page.drawn("fillRect").filter(bar => bar.height === QUEUE_BAR && bar.colour === page.colour("--bad"));
  assert.equal(failed.length, 2);
  [[300, 6500], [6500, 8000]].forEach(([from, until], n) => {
    near(timeAt(page, failed[n].x), from, 15, "start of what failed");
    near(timeAt(page, failed[n].x + failed[n].width), until, 20, "end of what failed");
  });
  assert.deepEqual(drawn.map(([what]) => what), expected.map(([what]) => what));
  drawn.forEach(([, from, until], n) => {
    near(from, expected[n][1], 15, "start of " + expected[n]);
    near(until, expected[n][2], 20, "end of " + expected[n]);
  });
  // Pointed at, a command is the one of its lane.
  const load = bars(page, QUEUE_BAR).at(-4);
  assert.equal(pointedAt(page, load.middle, load.centre).title, "load");
});

test("what there is to know of a command is told", () => {
  const page = open();
  const facts = id => { page.go("#id=" + id); return told(page.element("selection")); };
  assert.deepEqual(facts("1"), {
    title: "load", id: "1", kind: "write · id 1", "ran on": "accelerator, compute", queue: "transfers",
    ran: "1.00 µs from 400 ns", waited: "200 ns queued, 200 ns submitted", bytes: "4.00 KiB at 3.81 GiB/s",
    "waits for": "nothing", "holds up": "join 4",
  });
  assert.deepEqual(facts("4"), {
    title: "join", id: "4", kind: "launch · id 4", "ran on": "accelerator, compute", queue: "main",
    ran: "3.00 µs from 3.00 µs", waited: "2.40 µs queued, 400 ns submitted",
    "waits for": "load 1blur 2blur 3", "holds up": "check 6sum 7",
  });
  const check = facts("6");
  assert.equal(check.failed, "division by zero");
  assert.equal(check["waits for"], "join 4 1 that the trace does not have");
  assert.equal(facts("7").kind, "graph · id 7");
  const done = facts(DONE);
  assert.equal(done.ran, "0 ns from 10.0 µs");
  assert.equal(done["waits for"], "check 6sum 7");
  assert.equal(done["holds up"], "nothing");
  // Whoever points at one hears how many there are.
  const bar = barOf(open("#id=6"), "6");
  const tip = pointedAt(open("#id=6"), bar.middle, bar.centre);
  assert.equal(tip["waits for"], "2 commands; 1 wait for it");
});

test("arrows lead to the selected command and from it", () => {
  const page = open();
  const join = barOf(page, "4"), places = ["1", "2", "3", "6", "7"].map(id => barOf(page, id));
  page.click(join.middle, join.centre);
  page.pointer("leave", 0, 0);
  const drawn = page.drawn("stroke").filter(stroke => stroke.path.length === 2 && stroke.path[1].length === 6);
  const [into, outof] = ["--into", "--outof"].map(name => page.colour(name));
  assert.deepEqual(drawn.map(arrow => arrow.colour), [into, into, into, outof, outof]);
  drawn.forEach((arrow, n) => {
    const [[x, y], [, , , , tip, end]] = arrow.path;
    const [from, to] = n < 3 ? [places[n], join] : [join, places[n]];
    near(x, from.x + from.width, 1, "where the arrow begins");
    near(y, from.centre, 1, "where the arrow begins");
    near(tip, to.x, 6, "where the arrow ends");
    near(end, to.centre, 1, "where the arrow ends");
  });
  assert.equal(page.drawn("fill").length, 5, "heads");
  page.key("Escape");
  assert.equal(page.drawn("fill").length, 0);
});

test("a wheel zooms at the pointer, and no further than there is something to see", () => {
  const page = open();
  for (const [x, deltaY, expected] of [[600, -100, "8.43 µs shown"], [300, -200, "5.65 µs shown"], [900, 50, "6.25 µs shown"]]) {
    const before = timeAt(page, x);
    page.wheel(x, 100, { deltaY });
    assert.equal(shown(page), expected);
    near(timeAt(page, x), before, 15, "the time at the pointer");
  }
  // A pinch of a touchpad is a wheel with Ctrl, and lines are larger than pixels.
  page.wheel(600, 100, { deltaY: -10, ctrlKey: true });
  assert.equal(shown(page), "5.65 µs shown");
  page.wheel(600, 100, { deltaY: -3, deltaMode: 1 });
  assert.equal(shown(page), "5.14 µs shown");
  for (let n = 0; n < 100; n++) page.wheel(600, 100, { deltaY: -300 });
  assert.equal(shown(page), "20 ns shown");
  const before = timeAt(page, 600);
  page.wheel(600, 100, { deltaY: -300 });
  near(timeAt(page, 600), before, 0.02, "what cannot be zoomed does not move");
  for (let n = 0; n < 100; n++) page.wheel(600, 100, { deltaY: 300 });
  assert.equal(shown(page), "11.0 µs shown");
});

test("keys and buttons zoom at the middle, and show everything again", () => {
  const page = open();
  const middle = GUTTER + 500, before = timeAt(page, middle);
  for (const zoom of [() => page.key("+"), () => page.key("="), () => page.key("w"), () => page.press("in")]) zoom();
  assert.equal(shown(page), "2.03 µs shown");
  near(timeAt(page, middle), before, 15, "the middle");
  for (const zoom of [() => page.key("-"), () => page.key("s"), () => page.press("out")]) zoom();
  assert.equal(shown(page), "6.87 µs shown");
  near(timeAt(page, middle), before, 15, "the middle");
  for (const fit of [() => page.key("0"), () => page.key("Home"), () => page.press("fit")]) {
    page.key("+");
    page.key("d");
    fit();
    assert.equal(shown(page), "10.3 µs shown");
    near(timeAt(page, GUTTER), FROM, 6, "the left edge");
  }
  assert.equal(page.key("+").prevented, true);
  assert.equal(page.key("+", { ctrlKey: true }).prevented, false, "the browser's own zoom");
  assert.equal(page.key("toString").prevented, false, "not a key");
});

test("what is dragged, wheeled sideways or moved by keys moves as far", () => {
  const page = open();
  page.key("+");
  page.key("+");
  const scale = SHOWN / 1000 / 1.5 / 1.5;
  const moves = (pixels, move) => {
    const before = timeAt(page, GUTTER);
    move();
    near(timeAt(page, GUTTER) - before, pixels * scale, 10, "moved by " + pixels + " pixels");
    assert.equal(shown(page), "4.58 µs shown");
  };
  moves(147, () => page.key("d"));
  moves(-147, () => page.key("a"));
  page.scroller.focus();
  moves(147, () => page.key("ArrowRight"));
  moves(-147, () => page.key("ArrowLeft"));
  moves(80, () => page.wheel(500, 100, { deltaX: 80 }));
  moves(-80, () => page.wheel(500, 100, { deltaY: -80, shiftKey: true }));
  const { middle, centre } = barOf(page, "4");
  moves(-100, () => {
    page.pointer("down", middle, centre);
    page.pointer("move", middle + 40, centre);
    page.pointer("move", middle + 100, centre);
    page.pointer("up", middle + 100, centre);
  });
  assert.deepEqual(page.scroller.captured, [1]);
  assert.equal(selected(page), undefined, "who drags does not click");
  // A hand that trembles does click.
  const bar = barOf(page, "4");
  moves(0, () => {
    page.pointer("down", bar.middle, bar.centre);
    page.pointer("move", bar.middle + 3, bar.centre);
    page.pointer("up", bar.middle + 3, bar.centre);
  });
  assert.equal(selected(page), "4");
  // Some of the timeline stays in sight.
  for (let n = 0; n < 100; n++) page.key("d");
  near(timeAt(page, GUTTER), 10500 - 4578 * 0.75, 15, "as far as it goes");
  for (let n = 0; n < 100; n++) page.key("a");
  near(timeAt(page, GUTTER), -500 - 4578 * 0.25, 15, "as far as it goes back");
});

test("two fingers zoom", () => {
  const page = open();
  const { middle, centre } = barOf(page, "4"), before = timeAt(page, middle);
  const finger = (what, pointerId, x) => page.pointer(what, middle + x, centre, { pointerId });
  finger("down", 1, -50);
  finger("down", 2, 50);
  finger("move", 1, -50);
  finger("move", 1, -100);
  finger("move", 2, 100);
  assert.equal(shown(page), "5.15 µs shown");
  near(timeAt(page, middle), before, 300, "between the fingers");
  finger("up", 1, -100);
  finger("up", 2, 100);
  assert.equal(selected(page), undefined, "who zooms does not click");
});

test("lanes that there is no room for are scrolled to", () => {
  const page = open();
  page.resize(1176, 150);
  const labels = () => page.drawn("fillText").filter(text => text.x === 18).map(text => text.text);
  // Six lanes' and two queues' rows and three heads are 250 pixels.
  assert.equal(page.element("filler").style.height, "124px");
  assert.equal(page.element("canvas").width, 1176 * RATIO);
  assert.equal(page.element("canvas").height, 150 * RATIO);
  assert.equal(page.element("canvas").style.height, "150px");
  assert.ok(!labels().includes("transfers"));
  const before = page.drawn("fillText").find(text => text.text === "worker 1").y;
  page.wheel(500, 100, { deltaY: 20, altKey: true });
  assert.equal(page.drawn("fillText").find(text => text.text === "worker 1").y, before - 20);
  assert.equal(shown(page), "10.3 µs shown");
  const bar = bars(page, LANE_BAR).find(bar => bar.kind === "write");
  assert.equal(pointedAt(page, bar.middle, bar.centre).title, "load");
  const [outline] = page.drawn("strokeRect").filter(outline => outline.colour === page.colour("--text"));
  near(outline.y + outline.height / 2, bar.centre, 1, "the outline");
  page.scroller.focus();
  page.key("ArrowDown");
  assert.equal(page.scroller.scrollTop, 80);
  page.key("ArrowUp");
  assert.equal(page.scroller.scrollTop, 20);
  page.pointer("down", 500, 100);
  page.pointer("move", 500, 90);
  page.pointer("up", 500, 90);
  assert.equal(page.scroller.scrollTop, 30);
  for (let n = 0; n < 5; n++) page.key("ArrowDown");
  assert.ok(labels().includes("transfers"));
  // What is selected by its id is scrolled to.
  page.go("#id=2");
  assert.equal(barOf(page, "2").kind, "launch");
});

test("a click selects, also beside a command that is too short to be hit, and one beside all of them does not", () => {
  const page = open();
  for (const id of ["2", "5", "4", "7"]) {
    const bar = barOf(page, id);
    page.click(bar.middle, bar.centre);
    assert.equal(selected(page), id);
    page.pointer("leave", 0, 0);
    const outlines = page.drawn("strokeRect").filter(outline => outline.colour === page.colour("--text"));
    assert.equal(outlines.length, 1);
    near(outlines[0].x, bar.x - 1, 1, "the outline");
  }
  const done = barOf(page, DONE);
  page.click(done.x - 2, done.centre);
  assert.equal(selected(page), DONE);
  page.click(done.x - 6, done.centre);
  assert.equal(selected(page), undefined);
  assert.equal(page.address, "/timeline.html");
  page.pointer("down", done.middle, done.centre, { button: 2 });
  page.pointer("up", done.middle, done.centre, { button: 2 });
  assert.equal(selected(page), undefined, "another button is no click");
  // The name of a lane is none, also where there is one behind it.
  const blur = barOf(page, "2");
  page.wheel(blur.middle, blur.centre, { deltaY: -1000 });
  page.click(GUTTER - 50, blur.centre);
  assert.equal(selected(page), undefined);
  page.click(GUTTER + 1, blur.centre);
  assert.equal(selected(page), "2");
  page.press("fit");
  const join = barOf(page, "4");
  page.doubleClick(join.middle, join.centre);
  assert.equal(selected(page), "4");
  // Zoomed to at most the trace's length to either side: six times its own is more.
  assert.equal(shown(page), "11.0 µs shown");
  const migration = barOf(page, "5");
  page.doubleClick(migration.middle, migration.centre);
  assert.equal(shown(page), "7.20 µs shown");
  near(timeAt(page, GUTTER + 500), 3100, 15, "the middle");
});

test("the tooltip is beside the pointer and within the page", () => {
  const page = open();
  const tip = page.element("tip");
  const blur = barOf(page, "2");
  pointedAt(page, blur.middle, blur.centre);
  near(parseFloat(tip.style.left), blur.middle + 16, 1, "left");
  near(parseFloat(tip.style.top), blur.centre + 16, 1, "top");
  // It tells of what has come to the pointer, too.
  page.pointer("leave", 0, 0);
  assert.ok(tip.hidden);
  page.wheel(blur.middle, blur.centre, { deltaY: -100 });
  assert.ok(!tip.hidden);
  assert.equal(told(tip).title, "blur");
  page.press("fit");
  const done = barOf(page, DONE);
  pointedAt(page, done.middle, done.centre);
  near(parseFloat(tip.style.left), done.middle - 216, 1, "left");
  page.resize(1176, 150);
  const load = barOf(page, "1");
  pointedAt(page, load.middle, load.centre);
  near(parseFloat(tip.style.top), load.centre - 90, 1, "top");
  page.resize(1176, 400);
  assert.equal(pointedAt(page, 700, 390), undefined);
});

test("keys go from command to command", () => {
  const page = open();
  const goes = (key, id, fields) => { page.key(key, fields); assert.equal(selected(page), id); };
  goes("]", undefined);
  goes("[", undefined);
  goes(".", "2");
  goes(".", "6");
  goes(".", DONE);
  goes(".", DONE);
  goes(",", "6");
  goes("[", "4");
  goes("[", "1");
  goes("[", "1");
  goes("]", "4");
  goes("]", "6");
  goes("]", DONE);
  page.scroller.focus();
  page.key("Enter");
  // Of what takes no time, as much as of what takes a nanosecond, but no less than twenty are shown.
  assert.equal(shown(page), "20 ns shown");
  near(timeAt(page, GUTTER + 500), 10000, 1, "the middle");
  // What is not in sight comes into it.
  goes(",", "6");
  assert.equal(barOf(page, "6").kind, "host task");
  goes("Escape", undefined);
});

test("links in the panel select what they name", () => {
  const page = open("#id=4");
  const [load] = page.element("selection").all("button").filter(button => button.textContent === "load 1");
  load.click();
  assert.equal(selected(page), "1");
});

test("a search finds names, kinds, ids and failures, and dims the others", () => {
  const page = open();
  const finds = (text, count, ids) => {
    page.search(text);
    assert.equal(page.text("found"), count + " found");
    for (const id of ["previous", "next"]) assert.equal(page.element(id).disabled, count === 0);
    const bright = bars(page, LANE_BAR).filter(bar => bar.alpha === 1);
    assert.deepEqual(bright.map(bar => pointedAt(page, bar.middle, bar.centre).id).sort(), ids);
  };
  finds("blur", 2, ["2", "3"]);
  finds(" BLU ", 2, ["2", "3"]);
  finds("migrate", 1, ["5"]);
  finds("launch", 3, ["2", "3", "4"]);
  finds("graph", 1, ["7"]);
  finds("host task", 1, ["6"]);
  finds("failed", 1, ["6"]);
  finds(DONE, 1, [DONE]);
  finds("nothing like that", 0, []);
  page.search("");
  assert.equal(page.text("found"), "");
  assert.ok(bars(page, LANE_BAR).every(bar => bar.alpha === 1));
});

test("keys and buttons go through what a search found, from the end to the beginning as well", () => {
  const page = open();
  page.key("/");
  assert.equal(page.focused, page.element("search"));
  page.search("launch");
  const steps = (step, id, at) => {
    step();
    assert.equal(selected(page), id);
    assert.equal(page.text("found"), at + " of 3");
  };
  // In the order of time.
  steps(() => page.key("Enter"), "2", 1);
  steps(() => page.key("Enter"), "3", 2);
  steps(() => page.key("Enter", { shiftKey: true }), "2", 1);
  page.scroller.focus();
  steps(() => page.key("N"), "4", 3);
  steps(() => page.key("n"), "2", 1);
  steps(() => page.press("next"), "3", 2);
  steps(() => page.press("previous"), "2", 1);
  // From a command that was not found: to the next one, or the one before.
  page.go("#id=5");
  steps(() => page.key("n"), "4", 3);
  page.go("#id=5");
  steps(() => page.key("N"), "3", 2);
  page.go("#id=" + DONE);
  steps(() => page.key("n"), "2", 1);
  page.go("#id=" + DONE);
  steps(() => page.key("N"), "4", 3);
  // While one types, letters are letters.
  page.element("search").focus();
  page.key("n");
  page.key("0");
  assert.equal(selected(page), "4");
  page.key("Escape");
  assert.equal(page.element("search").value, "");
  assert.equal(page.text("found"), "");
  assert.equal(page.focused, page.scroller);
  assert.equal(selected(page), "4", "what is selected stays so");
});

test("the legend counts kinds, and hides them", () => {
  const page = open();
  const entries = page.element("legend").all("button");
  assert.deepEqual(entries.map(entry => entry.textContent), [
    "launch 3", "host task 1", "write 1", "migrate 1", "marker 1", "other 1", "failed 1",
  ]);
  const swatches = entries.map(entry => entry.all("canvas")[0].pen.drawn[0].colour);
  assert.equal(swatches[0], page.colourOf("launch"));
  assert.equal(swatches[3], "pattern of " + page.colourOf("migrate"));
  const [launch] = entries, { middle, centre } = barOf(page, "2");
  launch.click();
  page.frame();
  assert.equal(launch.attributes.get("aria-pressed"), "false");
  const kinds = bars(page, LANE_BAR).map(bar => bar.kind);
  assert.deepEqual(kinds, ["host task", "marker", "other", "write", "migrate, striped"]);
  assert.equal(pointedAt(page, middle, centre), undefined, "what is hidden cannot be pointed at");
  entries[3].click();
  page.frame();
  assert.ok(!bars(page, LANE_BAR).some(bar => bar.kind === "migrate, striped"));
  for (const entry of [launch, entries[3]]) entry.click();
  page.frame();
  assert.equal(launch.attributes.get("aria-pressed"), "true");
  assert.equal(bars(page, LANE_BAR).length, 8);
  entries.at(-1).click();
  page.frame();
  assert.equal(selected(page), "6");
  assert.equal(page.text("found"), "1 of 1");
});

test("the address selects and searches", () => {
  const id = open("#id=5");
  assert.equal(selected(id), "5");
  assert.equal(shown(id), "7.20 µs shown");
  const both = open("#search=launch&id=4");
  assert.equal(selected(both), "4");
  assert.equal(both.text("found"), "3 found");
  const unknown = open("#id=99");
  assert.equal(unknown.text("found"), "no id 99");
  assert.equal(selected(unknown), undefined);
  const broken = open("#%E0%A4%A=&id");
  assert.equal(broken.text("found"), "no id ");
  assert.equal(shown(open("#")), "10.3 µs shown");
});

test("the help is shown and hidden", () => {
  const page = open();
  const help = page.element("help"), button = page.element("keys");
  assert.ok(help.hidden);
  page.element("keys").click();
  assert.ok(!help.hidden);
  assert.equal(button.attributes.get("aria-expanded"), "true");
  page.key("?");
  assert.ok(help.hidden);
  assert.equal(button.attributes.get("aria-expanded"), "false");
});

test("a dark screen has other colours", () => {
  const page = open();
  page.style.set("--kind-0", "dark blue");
  page.style.set("--back", "black");
  page.scheme.dispatch("change");
  page.frame();
  assert.equal(page.drawn("fillRect")[0].colour, "black");
  assert.equal(bars(page, LANE_BAR).filter(bar => bar.colour === "dark blue").length, 3);
});
