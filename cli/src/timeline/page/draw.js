// The canvas: one picture of `view`, drawn at most once per frame.

const scroller = document.getElementById("scroller"), canvas = document.getElementById("canvas");
const pen = canvas.getContext("2d");
const GUTTER = 176, AXIS = 24;
const view = { from: -span * 0.01, until: span * 1.02, hovered: -1, selected: -1 };
const hiddenKinds = new Set();
let matched = null; // null, or 1 for each command that the search found
let width = 0, height = 0, wanted = false;
let theme = {};

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const value = name => style.getPropertyValue(name).trim();
  theme = { kinds: data.kinds.map((_, k) => value("--kind-" + k)) };
  for (const name of ["back", "panel", "line", "grid", "text", "soft", "accent", "bad", "row", "into", "outof", "match"])
    theme[name] = value("--" + name);
  theme.barText = value("--bar-text");
  theme.hatch = hatch(theme.kinds[MIGRATE], theme.barText);
}
// Diagonal stripes: what the core moved unasked is told apart without its colour as well.
function hatch(colour, stripe) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const p = tile.getContext("2d");
  p.fillStyle = colour;
  p.fillRect(0, 0, 8, 8);
  p.strokeStyle = stripe;
  p.globalAlpha = 0.45;
  p.lineWidth = 2;
  p.beginPath();
  for (const offset of [-8, 0, 8]) { p.moveTo(offset, 8); p.lineTo(offset + 8, 0); }
  p.stroke();
  return pen.createPattern(tile, "repeat");
}

// Of at least one pixel: what has no room now has a view all the same when there is room again.
const scale = () => Math.max(width - GUTTER, 1) / (view.until - view.from);
const xOf = time => GUTTER + (time - view.from) * scale();
const timeAt = x => view.from + (x - GUTTER) / scale();

function redraw() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(() => { wanted = false; draw(); });
}
function resize() {
  width = scroller.clientWidth;
  height = scroller.clientHeight;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = width + "px";
  canvas.style.height = height + "px";
  // The canvas stays in sight while this scrolls.
  document.getElementById("filler").style.height = Math.max(0, contentHeight + AXIS - height) + "px";
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  // At once: to resize a canvas empties it, and an empty frame would flicker.
  draw();
}

function draw() {
  const top = scroller.scrollTop;
  pen.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  pen.textBaseline = "middle";
  pen.fillStyle = theme.back;
  pen.fillRect(0, 0, width, height);
  const ticks = ticksOf();
  pen.fillStyle = theme.grid;
  for (const tick of ticks.times) pen.fillRect(Math.round(xOf(tick)), AXIS, 1, height);
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, width, height - AXIS);
  pen.clip();
  for (const row of rows) {
    const y = AXIS + row.y - top;
    if (y > height || y + row.height < AXIS) continue;
    if (row.head !== undefined) drawHead(row, y); else drawRow(row, y);
  }
  const shown = view.hovered >= 0 ? view.hovered : view.selected;
  pen.beginPath();
  pen.rect(GUTTER, AXIS, width - GUTTER, height - AXIS);
  pen.clip();
  for (const i of new Set([view.selected, view.hovered])) if (i >= 0) outline(i, top);
  if (shown >= 0) drawArrows(shown, top);
  pen.restore();
  drawLabels(top);
  drawAxis(ticks);
}

function drawHead(row, y) {
  pen.fillStyle = theme.panel;
  pen.fillRect(0, y, width, row.height);
  pen.fillStyle = theme.text;
  pen.font = "600 12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
  pen.textAlign = "left";
  pen.fillText(fitted(row.head, width - 20), 10, y + row.height / 2);
  pen.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
}

function drawRow(row, y) {
  const s = scale(), inset = row.height > 8 ? 2 : row.height > 5 ? 1 : 0;
  const top = y + inset, tall = row.height - Math.max(1, 2 * inset);
  pen.fillStyle = theme.line;
  pen.fillRect(GUTTER - 1, y, 1, row.height);
  pen.fillStyle = theme.grid;
  if (!row.queue || row.last) pen.fillRect(0, y + row.height - 1, width, 1);
  let lastPixel = -1, lastRank = -1;
  for (let n = firstEnding(row, view.from); n < row.items.length && row.from[n] <= view.until; n++) {
    const i = row.items[n], kind = kindOf[i];
    if (hiddenKinds.has(kind)) continue;
    const begin = Math.max(GUTTER, GUTTER + (row.from[n] - view.from) * s);
    const end = Math.min(width, GUTTER + (ended[i] - view.from) * s);
    const wide = end - begin;
    const failed = failures.has(i), faint = matched && !matched[i];
    if (wide < 1.5) {
      // Of all commands within one pixel, the one that matters most is drawn.
      const pixel = Math.floor(begin), rank = (faint ? 0 : 4) + (failed ? 2 : kind === MIGRATE ? 1 : 0);
      if (pixel === lastPixel && rank <= lastRank) continue;
      lastPixel = pixel;
      lastRank = rank;
      pen.globalAlpha = faint ? 0.15 : 1;
      pen.fillStyle = failed ? theme.bad : theme.kinds[kind];
      pen.fillRect(pixel, top, 1.5, tall);
      continue;
    }
    lastPixel = -1;
    // A gap between neighbours, when there is room for it.
    const right = wide > 4 ? end - 0.75 : end;
    const run = row.queue ? Math.max(begin, Math.min(right, GUTTER + (started[i] - view.from) * s)) : begin;
    // Too flat for an outline: red all over.
    pen.fillStyle = failed && row.queue ? theme.bad : theme.kinds[kind];
    if (run > begin) {
      pen.globalAlpha = faint ? 0.06 : 0.28;
      pen.fillRect(begin, top, run - begin, tall);
    }
    pen.globalAlpha = faint ? 0.15 : 1;
    if (kind === MIGRATE && wide >= 5 && !(failed && row.queue)) pen.fillStyle = theme.hatch;
    if (right > run || failed) pen.fillRect(run, top, Math.max(right - run, failed ? 2 : 0), tall);
    if (failed && !row.queue) drawFailed(begin, top, right - begin, tall);
    if (right - run > 34 && tall > 10 && !row.queue) drawName(i, run, right, y + row.height / 2, kind === MIGRATE);
  }
  pen.globalAlpha = 1;
}
function drawFailed(x, y, wide, tall) {
  pen.strokeStyle = theme.bad;
  pen.lineWidth = 2;
  if (wide < 4) { pen.fillStyle = theme.bad; pen.fillRect(x, y, wide, tall); return; }
  pen.strokeRect(x + 1, y + 1, wide - 2, tall - 2);
  if (wide > 10 && tall > 6) {
    pen.beginPath();
    pen.moveTo(x + 1, y + 1); pen.lineTo(x + Math.min(wide, tall) - 1, y + tall - 1);
    pen.moveTo(x + Math.min(wide, tall) - 1, y + 1); pen.lineTo(x + 1, y + tall - 1);
    pen.stroke();
  }
}
function drawName(i, from, until, y, striped) {
  const room = until - from - (failures.has(i) ? 26 : 8);
  const text = fitted(nameOf(i), room);
  if (!text) return;
  const x = from + (failures.has(i) ? 21 : 4);
  pen.textAlign = "left";
  if (striped) { pen.fillStyle = theme.kinds[MIGRATE]; pen.fillRect(x - 2, y - 6, pen.measureText(text).width + 4, 12); }
  pen.fillStyle = theme.barText;
  pen.fillText(text, x, y + 0.5);
}
// Text cut to a width. Measured once per text and width class, since names repeat.
const fits = new Map();
function fitted(text, room) {
  if (room < 12) return "";
  const key = text + "\0" + Math.floor(room / 6) + pen.font;
  let cut = fits.get(key);
  if (cut === undefined) {
    const most = Math.floor(room / 6) * 6;
    cut = text;
    if (pen.measureText(cut).width > most) {
      let low = 0, high = text.length;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (pen.measureText(text.slice(0, middle) + "…").width <= most) low = middle; else high = middle - 1;
      }
      cut = low ? text.slice(0, low) + "…" : "";
    }
    if (fits.size > 5000) fits.clear();
    fits.set(key, cut);
  }
  return cut;
}

// Where a command is on its lane, in canvas pixels.
function placeOf(i, top) {
  const row = rows[rowOf[i]];
  return { from: xOf(started[i]), until: xOf(ended[i]), y: AXIS + row.y - top, tall: row.height };
}
function outline(i, top) {
  if (rowOf[i] < 0) return;
  const place = placeOf(i, top);
  pen.strokeStyle = theme.text;
  pen.lineWidth = 2;
  const from = Math.max(place.from, GUTTER - 4), until = Math.min(place.until, width + 4);
  if (until > from - 4) pen.strokeRect(from - 1, place.y + 1, Math.max(until - from, 2) + 2, place.tall - 3);
}
function drawArrows(i, top) {
  const most = 400;
  for (const source of waitsOf(i).slice(0, most)) drawArrow(source, i, theme.into, top);
  for (const target of dependantsOf(i).slice(0, most)) drawArrow(i, target, theme.outof, top);
}
function drawArrow(source, target, colour, top) {
  if (rowOf[source] < 0 || rowOf[target] < 0) return;
  const a = placeOf(source, top), b = placeOf(target, top);
  const x0 = a.until, y0 = a.y + a.tall / 2, x1 = b.from, y1 = b.y + b.tall / 2;
  if (Math.max(x0, x1) < GUTTER - 50 || Math.min(x0, x1) > width + 50) return;
  const bend = Math.max(24, Math.min(120, Math.abs(x1 - x0) / 2));
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = 1.75;
  pen.beginPath();
  pen.moveTo(x0, y0);
  pen.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1 - 5, y1);
  pen.stroke();
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x1 - 8, y1 - 4);
  pen.lineTo(x1 - 8, y1 + 4);
  pen.fill();
}

function drawLabels(top) {
  pen.save();
  pen.beginPath();
  pen.rect(0, AXIS, GUTTER - 1, height);
  pen.clip();
  pen.textAlign = "left";
  for (const row of rows) {
    const y = AXIS + row.y - top, tall = row.tall || row.height;
    if (!row.label || y > height || y + tall < 0) continue;
    pen.fillStyle = theme.soft;
    pen.fillText(fitted(row.label, GUTTER - 32), 18, y + tall / 2);
  }
  pen.restore();
}

function ticksOf() {
  const wide = (view.until - view.from) * 110 / Math.max(width - GUTTER, 1);
  let step = Math.pow(10, Math.ceil(Math.log10(wide)));
  if (step / 5 >= wide) step /= 5; else if (step / 2 >= wide) step /= 2;
  step = Math.max(step, 1);
  const times = [];
  for (let n = Math.ceil(view.from / step); n * step <= view.until; n++) times.push(n * step);
  // One unit for the whole axis, with as many digits as tell two ticks apart.
  const largest = Math.max(Math.abs(view.from), Math.abs(view.until));
  const unit = largest >= 2e9 ? [1e9, "s"] : largest >= 2e6 ? [1e6, "ms"] : largest >= 2e3 ? [1e3, "µs"] : [1, "ns"];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / unit[0]) - 1e-9)));
  return { times, text: time => (time / unit[0]).toFixed(digits) + " " + unit[1] };
}
function drawAxis(ticks) {
  pen.fillStyle = theme.back;
  pen.fillRect(0, 0, width, AXIS);
  pen.fillStyle = theme.line;
  pen.fillRect(0, AXIS - 1, width, 1);
  pen.fillStyle = theme.soft;
  pen.textAlign = "left";
  pen.fillText(durationText(view.until - view.from) + " shown", 10, AXIS / 2);
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, 0, width - GUTTER, AXIS);
  pen.clip();
  for (const tick of ticks.times) {
    const x = Math.round(xOf(tick));
    pen.fillRect(x, AXIS - 6, 1, 5);
    pen.fillText(ticks.text(tick), x + 4, AXIS / 2);
  }
  pen.restore();
}

// The command under a point of the canvas, or the nearest within three pixels; -1 if there is none.
function commandAt(x, y) {
  if (x < GUTTER || y < AXIS) return -1;
  const inside = y - AXIS + scroller.scrollTop;
  const row = rows.find(row => inside >= row.y && inside < row.y + row.height);
  if (!row || !row.items) return -1;
  const time = timeAt(x), slack = 3 / scale();
  let best = -1, nearest = slack;
  for (let n = firstEnding(row, time - slack); n < row.items.length && row.from[n] <= time + slack; n++) {
    const i = row.items[n];
    if (hiddenKinds.has(kindOf[i])) continue;
    const distance = Math.max(row.from[n] - time, time - ended[i], 0);
    if (distance < nearest || (distance === 0 && nearest > 0)) { best = i; nearest = distance; }
    if (distance === 0) break;
  }
  return best;
}
