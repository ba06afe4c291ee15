// Words about a command, in the tooltip and in the panel. Everything goes in as text, never as markup.

const tip = document.getElementById("tip"), panel = document.getElementById("selection");

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}
function facts(i) {
  const device = laneDevice[columns.lane[i]];
  const list = [
    ["kind", kindName(i) + " · id " + columns.id[i]],
    ["ran on", device.name + ", " + laneNames[columns.lane[i]]],
    ["queue", data.queues[columns.queue[i]].name],
    ["ran", durationText(ended[i] - started[i]) + " from " + durationText(started[i])],
    ["waited", durationText(submitted[i] - queued[i]) + " queued, " + durationText(started[i] - submitted[i]) + " submitted"],
  ];
  const bytes = columns.bytes[i], time = ended[i] - started[i];
  if (bytes) list.push(["bytes", bytesText(bytes) + (time ? " at " + bytesText(Math.round(bytes / time * 1e9)) + "/s" : "")]);
  if (failures.has(i)) list.push(["failed", failures.get(i)]);
  return list;
}
function factsElement(i) {
  const made = element("dl", undefined, "facts");
  for (const [term, text] of facts(i))
    made.append(element("dt", term), element("dd", text, term === "failed" ? "bad" : ""));
  return made;
}
const title = i => nameOf(i) || kindName(i);

function showTip(x, y) {
  const i = view.hovered;
  tip.hidden = i < 0;
  if (i < 0) return;
  const waits = waitFrom[i + 1] - waitFrom[i] + columns.missing[i], held = dependantFrom[i + 1] - dependantFrom[i];
  const list = factsElement(i);
  list.append(element("dt", "waits for"), element("dd", waits + (waits === 1 ? " command" : " commands") + "; " + held + " wait for it"));
  tip.replaceChildren(element("h2", title(i)), list);
  const left = x + 16 + tip.offsetWidth > width ? x - 16 - tip.offsetWidth : x + 16;
  const below = y + 16 + tip.offsetHeight > height ? y - 10 - tip.offsetHeight : y + 16;
  tip.style.left = Math.max(4, left) + "px";
  tip.style.top = Math.max(4, below) + "px";
}

function links(label, list, missing) {
  const line = element("dd", undefined, "links");
  for (const i of list.slice(0, 40)) {
    const button = element("button", title(i) + " " + columns.id[i]);
    button.type = "button";
    button.addEventListener("click", () => { select(i); reveal(i, false); });
    line.append(button);
  }
  if (list.length > 40) line.append(" and " + (list.length - 40) + " more");
  if (missing) line.append(" " + missing + " that the trace does not have");
  if (!list.length && !missing) line.textContent = "nothing";
  return [element("dt", label), line];
}
function showSelection() {
  const i = view.selected;
  if (i < 0) {
    panel.replaceChildren(element("p", count
      ? "Click a command, or press . with the timeline in focus, to see its details and dependencies."
      : "This trace has no commands."));
    return;
  }
  const list = factsElement(i);
  list.append(...links("waits for", waitsOf(i), columns.missing[i]), ...links("holds up", dependantsOf(i), 0));
  panel.replaceChildren(element("h2", title(i)), list);
}
