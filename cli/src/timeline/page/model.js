// The trace as columns, and the rows it is laid out in. Times are nanoseconds since the first command was enqueued.

const data = JSON.parse(document.getElementById("data").textContent);
const columns = data.columns;
const count = columns.id.length;
const span = Math.max(data.span, 1);

const started = new Float64Array(count), ended = new Float64Array(count);
const submitted = new Float64Array(count), queued = new Float64Array(count);
for (let i = 0, time = 0; i < count; i++) {
  time += columns.start[i];
  started[i] = time;
  ended[i] = time + columns.duration[i];
  submitted[i] = time - columns.submitted[i];
  queued[i] = submitted[i] - columns.queued[i];
}
const kindOf = Uint8Array.from(columns.kind);
const failures = new Map(data.failed);
const otherKinds = new Map(data.others);
const MIGRATE = data.kinds.indexOf("migrate");
const nameOf = i => data.names[columns.name[i]];
const kindName = i => otherKinds.get(i) || data.kinds[kindOf[i]];

// Waits of i: positions from waitFrom[i] to waitFrom[i + 1] of columns.waits; dependants in the same way.
const waitFrom = new Uint32Array(count + 1), dependantFrom = new Uint32Array(count + 1);
for (let i = 0; i < count; i++) waitFrom[i + 1] = waitFrom[i] + columns.wait_count[i];
for (const source of columns.waits) dependantFrom[source + 1]++;
for (let i = 0; i < count; i++) dependantFrom[i + 1] += dependantFrom[i];
const dependants = new Uint32Array(columns.waits.length);
{
  const filled = dependantFrom.slice();
  for (let i = 0; i < count; i++)
    for (let w = waitFrom[i]; w < waitFrom[i + 1]; w++) dependants[filled[columns.waits[w]]++] = i;
}
const waitsOf = i => columns.waits.slice(waitFrom[i], waitFrom[i + 1]);
const dependantsOf = i => Array.from(dependants.subarray(dependantFrom[i], dependantFrom[i + 1]));

// Puts commands, ordered by `from`, side by side so that those of one row never overlap. When `most` rows are taken, a
// command is shown from when one of them is free, or not at all if it has ended by then.
function pack(list, from, most) {
  const rows = [];
  for (const i of list) {
    let row = rows.find(row => row.free <= from[i]);
    if (!row && rows.length < most) rows.push(row = { free: 0, items: [], from: [] });
    if (!row) row = rows.reduce((a, b) => (b.free < a.free ? b : a));
    const start = Math.max(from[i], row.free);
    if (start > ended[i]) continue;
    row.items.push(i);
    row.from.push(start);
    row.free = ended[i];
  }
  return rows;
}

const LANE = 20, NARROW = 14, HEAD = 24;
const laneNames = [], laneDevice = [];
for (const device of data.devices)
  for (const [, name] of device.lanes) { laneNames.push(name); laneDevice.push(device); }
const laneItems = laneNames.map(() => []), queueItems = data.queues.map(() => []);
for (let i = 0; i < count; i++) laneItems[columns.lane[i]].push(i);
for (const i of Array.from(queued.keys()).sort((a, b) => queued[a] - queued[b] || a - b)) queueItems[columns.queue[i]].push(i);

// Everything on the canvas from top to bottom: {y, height, head} or {y, height, label, items, from, queue}.
const rows = [];
const rowOf = new Int32Array(count).fill(-1); // the lane's row
let contentHeight = 0;
function addRow(row) {
  row.y = contentHeight;
  contentHeight += row.height;
  rows.push(row);
}
{
  let lane = 0;
  for (const device of data.devices) {
    addRow({ head: device.name, height: HEAD });
    for (let n = 0; n < device.lanes.length; n++, lane++) {
      const packed = pack(laneItems[lane], started, 64);
      if (!packed.length) packed.push({ items: [], from: [] });
      packed.forEach((part, k) => {
        for (const i of part.items) rowOf[i] = rows.length;
        addRow({ label: k ? "" : laneNames[lane], height: LANE, items: part.items, from: part.from, queue: false });
      });
    }
  }
  if (data.queues.length) addRow({ head: "queues: from enqueued (pale while waiting) to ended", height: HEAD });
  data.queues.forEach((queue, q) => {
    const packed = pack(queueItems[q], queued, 24);
    const height = Math.max(4, Math.min(NARROW, Math.floor(96 / Math.max(packed.length, 1))));
    packed.forEach((part, k) =>
      addRow({ label: k ? "" : queue.name, height, items: part.items, from: part.from, queue: true, last: k + 1 === packed.length, tall: packed.length * height }));
    if (!packed.length) addRow({ label: queue.name, height: NARROW, items: [], from: [], queue: true, last: true, tall: NARROW });
  });
}

// The first position of a row of which the command ends at or after `time`.
function firstEnding(row, time) {
  let low = 0, high = row.items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ended[row.items[middle]] < time) low = middle + 1; else high = middle;
  }
  return low;
}

function durationText(ns) {
  const units = ["ns", "µs", "ms", "s"];
  let unit = 0;
  while (Math.abs(ns) >= 999.5 && unit < 3) { ns /= 1000; unit++; }
  return (unit ? ns.toPrecision(Math.abs(ns) >= 1000 ? 4 : 3) : Math.round(ns)) + " " + units[unit];
}
function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let unit = 0;
  while (bytes >= 999.5 && unit < 6) { bytes /= 1024; unit++; }
  return (unit ? bytes.toPrecision(3) : bytes) + " " + units[unit];
}
