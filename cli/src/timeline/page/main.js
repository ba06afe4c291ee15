// Mouse, keys, search, legend and the page's address.

const search = document.getElementById("search"), found = document.getElementById("found");
let matches = [];

// Times are numbers of 53 bits: of a span of hours, less than this could not be told apart.
const LEAST = Math.min(Math.max(20, span / 2 ** 40), span * 1.03), MOST = span * 1.1;
const clamped = wide => Math.max(LEAST, Math.min(MOST, wide));
function setView(from, until) {
  const centre = (from + until) / 2, wide = clamped(until - from);
  from = Math.max(-span * 0.05 - wide * 0.25, Math.min(span * 1.05 - wide * 0.75, centre - wide / 2));
  view.from = from;
  view.until = from + wide;
  redraw();
}
const fit = () => setView(-span * 0.01, span * 1.02);
function zoom(factor, x) {
  const at = timeAt(x === undefined ? (GUTTER + width) / 2 : Math.max(x, GUTTER));
  // The clamped width, so that zooming at a limit does not move the view.
  const wide = clamped((view.until - view.from) / factor);
  const share = (at - view.from) / (view.until - view.from);
  setView(at - wide * share, at - wide * share + wide);
}
function pan(pixels) {
  const time = pixels / scale();
  setView(view.from + time, view.until + time);
}

function select(i) {
  view.selected = i;
  showSelection();
  try {
    history.replaceState(null, "", i < 0 ? location.pathname + location.search : "#id=" + columns.id[i]);
  } catch { /* Some browsers refuse it for files. */ }
  redraw();
}
// Brings a command into view: always when it is centred, otherwise only as far as needed.
function reveal(i, centre) {
  const wide = view.until - view.from, own = Math.max(ended[i] - started[i], 1), middle = (started[i] + ended[i]) / 2;
  if (centre) setView(middle - Math.min(own * 6, span), middle + Math.min(own * 6, span));
  else if (started[i] < view.from || ended[i] > view.until) {
    const next = Math.max(wide, own * 1.2);
    setView(middle - next / 2, middle + next / 2);
  }
  if (rowOf[i] < 0) return;
  const row = rows[rowOf[i]], top = scroller.scrollTop;
  if (centre || row.y < top || row.y + row.height > top + height - AXIS)
    scroller.scrollTop = row.y - (height - AXIS - row.height) / 2;
}

function runSearch() {
  const text = search.value.trim().toLowerCase();
  matches = [];
  matched = null;
  if (text) {
    matched = new Uint8Array(count);
    const inName = data.names.map(name => name.toLowerCase().includes(text));
    for (let i = 0; i < count; i++)
      if (inName[columns.name[i]] || columns.id[i] === text || kindName(i) === text || (text === "failed" && failures.has(i))) {
        matched[i] = 1;
        matches.push(i);
      }
  }
  found.textContent = text ? matches.length.toLocaleString("en") + " found" : "";
  for (const id of ["previous", "next"]) document.getElementById(id).disabled = !matches.length;
  redraw();
}
function step(direction) {
  if (!matches.length) return;
  const at = matches.findIndex(i => i >= view.selected);
  let next;
  if (view.selected < 0) next = direction > 0 ? 0 : matches.length - 1;
  else if (at < 0) next = direction > 0 ? 0 : matches.length - 1;
  else if (direction > 0) next = matches[at] === view.selected ? at + 1 : at;
  else next = at - 1;
  const i = matches[(next + matches.length) % matches.length];
  select(i);
  reveal(i, false);
  found.textContent = matches.indexOf(i) + 1 + " of " + matches.length.toLocaleString("en");
}
// The command before or after the selected one on its lane; the first in sight when none is selected.
function neighbour(direction) {
  let next = -1;
  if (view.selected < 0) next = rows.filter(row => row.items && !row.queue).map(row => row.items[firstEnding(row, view.from)]).find(i => i !== undefined) ?? -1;
  else if (rowOf[view.selected] >= 0) {
    const items = rows[rowOf[view.selected]].items;
    next = items[items.indexOf(view.selected) + direction] ?? -1;
  }
  if (next >= 0) { select(next); reveal(next, false); }
}
function go(list) {
  if (list.length) { select(list[0]); reveal(list[0], false); }
}

const swatches = [];
function drawSwatches() {
  for (const [swatch, kind] of swatches) {
    const p = swatch.getContext("2d");
    p.clearRect(0, 0, 32, 24);
    p.setTransform(2, 0, 0, 2, 0, 0);
    p.fillStyle = kind === MIGRATE ? theme.hatch : kind < 0 ? theme.back : theme.kinds[kind];
    p.fillRect(0, 0, 16, 12);
    if (kind < 0) {
      p.strokeStyle = theme.bad;
      p.lineWidth = 2;
      p.strokeRect(1, 1, 14, 10);
      p.beginPath();
      p.moveTo(3, 1); p.lineTo(13, 11); p.moveTo(13, 1); p.lineTo(3, 11);
      p.stroke();
    }
  }
}
function makeLegend() {
  const legend = document.getElementById("legend"), used = new Array(data.kinds.length).fill(0);
  for (let i = 0; i < count; i++) used[kindOf[i]]++;
  const entry = (text, number, kind, press) => {
    const button = element("button"), swatch = element("canvas");
    swatch.width = 32;
    swatch.height = 24;
    swatches.push([swatch, kind]);
    button.type = "button";
    button.append(swatch, text + " ", element("small", number.toLocaleString("en")));
    button.addEventListener("click", () => press(button));
    legend.append(button);
    return button;
  };
  data.kinds.forEach((name, kind) => {
    if (!used[kind]) return;
    entry(name, used[kind], kind, button => {
      const hide = !hiddenKinds.has(kind);
      if (hide) hiddenKinds.add(kind); else hiddenKinds.delete(kind);
      button.setAttribute("aria-pressed", String(!hide));
      redraw();
    }).setAttribute("aria-pressed", "true");
  });
  if (failures.size) entry("failed", failures.size, -1, () => { search.value = "failed"; runSearch(); step(1); }).title = "Go through what failed";
}

const pointers = new Map();
let press = null, pinch = 0;
const position = event => {
  const box = scroller.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
};
scroller.addEventListener("pointerdown", event => {
  if (event.button !== 0) return;
  const [x, y] = position(event);
  if (x > width) return; // the scroll bar
  scroller.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, [x, y]);
  press = { x, y, moved: false };
  pinch = 0;
});
scroller.addEventListener("pointermove", event => {
  const [x, y] = position(event);
  const before = pointers.get(event.pointerId);
  if (before) {
    pointers.set(event.pointerId, [x, y]);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()];
      const distance = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (pinch) zoom(distance / pinch, (a[0] + b[0]) / 2);
      pinch = distance;
      if (press) press.moved = true;
    } else if (press) {
      if (!press.moved && Math.hypot(x - press.x, y - press.y) > 4) {
        press.moved = true;
        scroller.classList.add("drags");
        view.hovered = -1;
        showTip(0, 0);
      }
      if (press.moved) { pan(before[0] - x); scroller.scrollTop += before[1] - y; }
    }
    return;
  }
  hover(x, y);
});
function hover(x, y) {
  const i = commandAt(x, y);
  if (i !== view.hovered) { view.hovered = i; redraw(); }
  showTip(x, y);
}
function release(event) {
  const [x, y] = position(event);
  if (pointers.delete(event.pointerId) && press && !press.moved && event.type === "pointerup") select(commandAt(x, y));
  if (!pointers.size) press = null;
  scroller.classList.remove("drags");
}
scroller.addEventListener("pointerup", release);
scroller.addEventListener("pointercancel", release);
scroller.addEventListener("pointerleave", () => { view.hovered = -1; showTip(0, 0); redraw(); });
scroller.addEventListener("dblclick", event => {
  const i = commandAt(...position(event));
  if (i >= 0) { select(i); reveal(i, true); }
});
scroller.addEventListener("wheel", event => {
  event.preventDefault();
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? height : 1;
  const [x, y] = position(event);
  if (event.altKey) scroller.scrollTop += event.deltaY * unit;
  else if (event.shiftKey) pan((event.deltaX || event.deltaY) * unit);
  else {
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX * unit);
    else zoom(Math.exp(-event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.002)), x);
  }
  hover(x, y);
}, { passive: false });
scroller.addEventListener("scroll", redraw);

const actions = {
  "+": () => zoom(1.5), "=": () => zoom(1.5), w: () => zoom(1.5), "-": () => zoom(1 / 1.5), s: () => zoom(1 / 1.5),
  a: () => pan(-width / 8), ArrowLeft: () => pan(-width / 8), d: () => pan(width / 8), ArrowRight: () => pan(width / 8),
  ArrowUp: () => { scroller.scrollTop -= 60; }, ArrowDown: () => { scroller.scrollTop += 60; },
  0: fit, Home: fit, n: () => step(1), N: () => step(-1), ",": () => neighbour(-1), ".": () => neighbour(1),
  "[": () => view.selected >= 0 && go(waitsOf(view.selected)), "]": () => view.selected >= 0 && go(dependantsOf(view.selected)),
  "/": () => search.focus(), "?": () => document.getElementById("keys").click(),
};
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (search.value) { search.value = ""; runSearch(); } else select(-1);
    if (event.target === search) scroller.focus();
    return;
  }
  if (event.target === search) {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    return;
  }
  if (event.key === "Enter" && event.target === scroller && view.selected >= 0) { reveal(view.selected, true); return; }
  // Arrow keys move the page's other parts as they always do.
  if (event.key.startsWith("Arrow") && event.target !== scroller && event.target !== document.body) return;
  const action = Object.hasOwn(actions, event.key) ? actions[event.key] : undefined;
  if (action) { event.preventDefault(); action(); }
});
document.getElementById("in").addEventListener("click", () => zoom(1.5));
document.getElementById("out").addEventListener("click", () => zoom(1 / 1.5));
document.getElementById("fit").addEventListener("click", fit);
document.getElementById("next").addEventListener("click", () => step(1));
document.getElementById("previous").addEventListener("click", () => step(-1));
document.getElementById("keys").addEventListener("click", event => {
  const help = document.getElementById("help");
  help.hidden = !help.hidden;
  event.target.setAttribute("aria-expanded", String(!help.hidden));
});
search.addEventListener("input", runSearch);

// #id=123 selects and centres a command, #search=text searches; both may be given, joined by &.
function followAddress() {
  let wanted;
  try { wanted = new URLSearchParams(location.hash.slice(1)); } catch { return; }
  if (wanted.has("search")) { search.value = wanted.get("search"); runSearch(); }
  if (!wanted.has("id")) return;
  const i = columns.id.indexOf(wanted.get("id"));
  if (i < 0) { found.textContent = "no id " + wanted.get("id"); return; }
  select(i);
  reveal(i, true);
}
window.addEventListener("hashchange", followAddress);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readTheme(); drawSwatches(); redraw(); });
new ResizeObserver(resize).observe(scroller);

readTheme();
makeLegend();
drawSwatches();
showSelection();
runSearch();
resize();
followAddress();
