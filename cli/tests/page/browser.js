// As much of a browser as the timeline's page needs, with everything that it has drawn and said to be looked at.
//
// It is strict where a browser is forgiving: a style variable that the page does not define, a coordinate that is no
// number and a `restore` without its `save` are errors. Frames are drawn when a test asks for them, with `frame`.
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const vm = require("node:vm");

// Where the lanes' part of the page is within it, and how many of a screen's pixels one of the page's has.
const LEFT = 30, TOP = 100, RATIO = 2;
// Every character is as wide, in all fonts.
const CHARACTER = 6;

class Target {
  listeners = new Map();
  addEventListener(type, listener) {
    this.listeners.set(type, [...this.listeners.get(type) ?? [], listener]);
  }
  dispatch(type, fields) {
    const event = { type, target: this, prevented: false, preventDefault() { this.prevented = true; }, ...fields };
    for (const listener of this.listeners.get(type) ?? []) listener(event);
    return event;
  }
}

class Element extends Target {
  hidden = false;
  disabled = false;
  value = "";
  className = "";
  style = {};
  attributes = new Map();
  // Elements and texts.
  content = [];
  classes = new Set();
  classList = { add: name => this.classes.add(name), remove: name => this.classes.delete(name) };
  // Of the tooltip, which is the only one whose size is asked for.
  offsetWidth = 200;
  offsetHeight = 80;

  constructor(tag) {
    super();
    this.tag = tag;
  }
  append(...added) {
    this.content.push(...added);
  }
  replaceChildren(...added) {
    this.content = added;
  }
  get textContent() {
    return this.content.map(part => (typeof part === "string" ? part : part.textContent)).join("");
  }
  set textContent(text) {
    this.content = [String(text)];
  }
  setAttribute(name, value) {
    this.attributes.set(name, value);
  }
  click() {
    if (!this.disabled) this.dispatch("click");
  }
  getContext(kind) {
    assert.equal(kind, "2d");
    return this.pen ??= new Pen(this);
  }
  // All elements of that kind in this one, from top to bottom.
  all(tag) {
    const parts = this.content.filter(part => typeof part !== "string");
    return parts.flatMap(part => (part.tag === tag ? [part] : part.all(tag)));
  }
}

// What scrolls: as far as the filler below the canvas is high.
class Scroller extends Element {
  clientWidth = 1176;
  clientHeight = 400;
  scrolled = 0;
  captured = [];
  get scrollTop() {
    return this.scrolled;
  }
  set scrollTop(top) {
    const before = this.scrolled;
    this.scrolled = Math.max(0, Math.min(parseFloat(this.filler.style.height), top));
    if (this.scrolled !== before) this.dispatch("scroll");
  }
  getBoundingClientRect() {
    return { left: LEFT, top: TOP };
  }
  setPointerCapture(pointer) {
    this.captured.push(pointer);
  }
}

// A canvas's context, which keeps what it is told to draw: `drawn`, since the canvas was last painted all over.
class Pen {
  drawn = [];
  saved = [];
  path = [];
  state = { fillStyle: "", strokeStyle: "", globalAlpha: 1, lineWidth: 1, font: "", textAlign: "", textBaseline: "" };

  constructor(canvas) {
    this.canvas = canvas;
    for (const name of Object.keys(this.state))
      Object.defineProperty(this, name, {
        get: () => this.state[name],
        set: value => {
          assert.ok(value !== undefined && !Number.isNaN(value), name + " is " + value);
          this.state[name] = value;
        },
      });
  }
  keep(what, numbers, more) {
    for (const number of numbers) assert.ok(Number.isFinite(number), what + " at " + numbers);
    this.drawn.push({ what, alpha: this.globalAlpha, ...more });
  }
  save() {
    this.saved.push({ ...this.state });
  }
  restore() {
    assert.ok(this.saved.length, "restored more often than saved");
    Object.assign(this.state, this.saved.pop());
  }
  setTransform(across, skew, skewed, down) {
    assert.deepEqual([across, skew, skewed, down], [RATIO, 0, 0, RATIO]);
  }
  clearRect() {
    this.drawn = [];
  }
  fillRect(x, y, width, height) {
    if (x === 0 && y === 0 && width * RATIO >= this.canvas.width && height * RATIO >= this.canvas.height) this.drawn = [];
    this.keep("fillRect", [x, y, width, height], { x, y, width, height, colour: this.fillStyle });
  }
  strokeRect(x, y, width, height) {
    this.keep("strokeRect", [x, y, width, height], { x, y, width, height, colour: this.strokeStyle });
  }
  fillText(text, x, y) {
    assert.equal(typeof text, "string");
    this.keep("fillText", [x, y], { text, x, y, colour: this.fillStyle });
  }
  measureText(text) {
    return { width: CHARACTER * text.length };
  }
  createPattern(tile) {
    return "pattern of " + tile.pen.drawn[0].colour;
  }
  beginPath() {
    this.path = [];
  }
  rect(...numbers) {
    this.path.push(numbers);
  }
  moveTo(...numbers) {
    this.path.push(numbers);
  }
  lineTo(...numbers) {
    this.path.push(numbers);
  }
  bezierCurveTo(...numbers) {
    this.path.push(numbers);
  }
  stroke() {
    this.keep("stroke", this.path.flat(), { path: this.path, colour: this.strokeStyle });
  }
  fill() {
    this.keep("fill", this.path.flat(), { path: this.path, colour: this.fillStyle });
  }
  clip() {}
}

// A page, opened: its scripts have run, and its first frame is drawn.
class Page {
  constructor(path, hash = "") {
    const html = fs.readFileSync(path, "utf8");
    this.elements = new Map();
    for (const [, tag, before, id, after] of html.matchAll(/<(\w+)\b([^>]*) id="([^"]+)"([^>]*)>/g)) {
      const made = id === "scroller" ? new Scroller(tag) : new Element(tag);
      made.hidden = / hidden\b/.test(before + after);
      this.elements.set(id, made);
    }
    this.scroller = this.element("scroller");
    this.scroller.filler = this.element("filler");
    this.element("data").textContent = /<script type="application\/json" id="data">(.*?)<\/script>/s.exec(html)[1];
    this.data = JSON.parse(this.element("data").textContent);
    // The light theme's, which are the first.
    this.style = new Map();
    for (const [, name, value] of /<style>(.*?)<\/style>/s.exec(html)[1].matchAll(/(--[\w-]+):\s*([^;}]+)/g))
      if (!this.style.has(name)) this.style.set(name, value);

    this.frames = [];
    this.resized = [];
    this.scheme = new Target();
    this.window = Object.assign(new Target(), { devicePixelRatio: RATIO });
    this.location = { hash, pathname: "/timeline.html", search: "" };
    this.document = Object.assign(new Target(), {
      documentElement: new Element("html"),
      body: new Element("body"),
      getElementById: id => this.elements.get(id) ?? null,
      createElement: tag => new Element(tag),
    });
    this.focused = this.document.body;
    for (const element of this.elements.values()) element.focus = () => { this.focused = element; };
    const observers = this.resized;
    const globals = {
      document: this.document,
      window: this.window,
      location: this.location,
      history: { replaceState: (state, title, address) => { this.address = address; } },
      URLSearchParams,
      requestAnimationFrame: draw => this.frames.push(draw),
      matchMedia: () => this.scheme,
      getComputedStyle: () => ({ getPropertyValue: name => this.colour(name) }),
      ResizeObserver: class {
        constructor(resized) { this.observe = () => observers.push(resized); }
      },
    };
    const [, script] = /<script>(.*?)<\/script>/s.exec(html);
    vm.runInNewContext(script, globals, { filename: "the page's scripts" });
    this.frame();
  }

  element(id) {
    assert.ok(this.elements.has(id), "no element " + id);
    return this.elements.get(id);
  }
  colour(name) {
    assert.ok(this.style.has(name), "no style " + name);
    return this.style.get(name);
  }
  colourOf(kind) {
    return this.colour("--kind-" + this.data.kinds.indexOf(kind));
  }
  text(id) {
    return this.element(id).textContent;
  }
  // What was drawn with that call of the context.
  drawn(what) {
    return this.element("canvas").pen.drawn.filter(one => one.what === what);
  }

  // What is asked to be drawn is drawn, as it is some milliseconds later.
  frame() {
    const wanted = this.frames.splice(0);
    assert.ok(wanted.length <= 1, "a frame is drawn once");
    for (const draw of wanted) draw();
  }
  resize(width, height) {
    this.scroller.clientWidth = width;
    this.scroller.clientHeight = height;
    for (const resized of this.resized) resized();
  }
  key(key, fields) {
    const event = this.document.dispatch("keydown", { key, target: this.focused, ...fields });
    this.frame();
    return event;
  }
  press(id) {
    this.element(id).click();
    this.frame();
  }
  wheel(x, y, fields) {
    const event = { deltaX: 0, deltaY: 0, deltaMode: 0, clientX: LEFT + x, clientY: TOP + y, ...fields };
    assert.ok(this.scroller.dispatch("wheel", event).prevented, "else the page moves as well");
    this.frame();
  }
  pointer(what, x, y, fields) {
    this.scroller.dispatch("pointer" + what, { button: 0, pointerId: 1, clientX: LEFT + x, clientY: TOP + y, ...fields });
    this.frame();
  }
  click(x, y) {
    this.pointer("down", x, y);
    this.pointer("up", x, y);
  }
  doubleClick(x, y) {
    this.scroller.dispatch("dblclick", { clientX: LEFT + x, clientY: TOP + y });
    this.frame();
  }
  search(text) {
    this.element("search").value = text;
    this.element("search").dispatch("input");
    this.frame();
  }
  go(hash) {
    this.location.hash = hash;
    this.window.dispatch("hashchange");
    this.frame();
  }
}

module.exports = { Page, LEFT, TOP, RATIO };
