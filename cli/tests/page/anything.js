// Whatever a trace has, its page keeps working whatever is done with it: `node anything.js PAGE...`.
//
// That nothing throws and no coordinate is without a number is up to `browser.js`.
"use strict";

const assert = require("node:assert/strict");
const test = require("node:test");
const path = require("node:path");
const { Page } = require("./browser.js");

// The same numbers each time, by a linear congruential generator.
let state = 1;
function below(most) {
  state = (Math.imul(state, 1103515245) + 12345) >>> 0;
  return Math.floor(state / 2 ** 32 * most);
}
const oneOf = list => list[below(list.length)];

const KEYS = [
  "+", "=", "-", "w", "a", "s", "d", "0", "Home", "n", "N", ",", ".", "[", "]", "/", "?", "Enter", "Escape",
  "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "constructor",
];
const SEARCHES = ["", "a", "launch", "failed", "1", "__proto__", "</script>", "\u0000"];
const ADDRESSES = ["", "#", "#id=", "#id=1", "#id=-1", "#id=1e9", "#search=%", "#search=a&id=0", "#=&&=", "#%E0%A4%A"];
const SIZES = [[1176, 400], [1176, 30], [300, 100], [177, 25], [176, 24], [100, 10], [0, 0]];

function act(page) {
  const x = below(1300) - 50, y = below(500) - 50;
  oneOf([
    () => page.key(oneOf(KEYS), { shiftKey: below(2) === 1 }),
    () => page.scroller.focus(),
    () => page.press(oneOf(["in", "out", "fit", "next", "previous", "keys"])),
    () => page.wheel(x, y, { deltaX: below(400) - 200, deltaY: below(2000) - 1000, deltaMode: below(3), shiftKey: below(4) === 0, altKey: below(4) === 0 }),
    () => page.pointer(oneOf(["down", "move", "up", "cancel", "leave"]), x, y, { pointerId: below(2), button: below(2) }),
    () => page.click(x, y),
    () => page.doubleClick(x, y),
    () => page.search(oneOf(SEARCHES)),
    () => page.go(oneOf(ADDRESSES)),
    () => page.resize(...oneOf(SIZES)),
    () => { for (const button of page.element("legend").all("button")) if (below(3) === 0) button.click(); page.frame(); },
    () => { for (const button of page.element("selection").all("button").slice(0, 3)) button.click(); page.frame(); },
    () => { page.scheme.dispatch("change"); page.frame(); },
  ])();
}

for (const file of process.argv.slice(2))
  test(path.basename(file), () => {
    const page = new Page(file);
    if (!page.data.columns.id.length) assert.equal(page.text("selection"), "This trace has no commands.");
    for (let n = 0; n < 500; n++) act(page);
    page.resize(1176, 400);
    for (const id of page.data.columns.id.slice(0, 20)) {
      page.go("#id=" + encodeURIComponent(id));
      assert.equal(page.address, "#id=" + id);
    }
    page.press("fit");
    // All times are numbers still.
    const [shown] = page.drawn("fillText").filter(text => text.text.endsWith(" shown"));
    assert.match(shown.text, /^[\d.e+]+ (ns|µs|ms|s) shown$/);
  });
