// The large map of the chosen head, with both axes of tokens; beside it the compared one.
const maps = document.getElementById("maps");
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', sans-serif";
const LABEL_SIZE = 13; // smaller where cells are small, down to SMALLEST_LABEL
const SMALLEST_LABEL = 10;
const SLANT = (-50 * Math.PI) / 180; // of the keys' labels, where there is room for a slant
const LARGEST_CELL = 44;
const zoom = { factor: 1, x: 0, y: 0 }; // x, y: the first cell in sight
const measuring = document.createElement("canvas").getContext("2d");

// A label no wider than `most` pixels.
function shortLabel(context, text, most) {
  if (context.measureText(text).width <= most) return text;
  const characters = [...text];
  while (characters.length > 1 && context.measureText(`${characters.join("")}…`).width > most) characters.pop();
  return `${characters.join("")}…`;
}

function longestLabel(tokens, most) {
  measuring.font = `${LABEL_SIZE}px ${FONT}`;
  let longest = 0;
  for (const token of tokens) {
    longest = Math.max(longest, measuring.measureText(token.text).width);
    if (longest >= most) return most;
  }
  return longest;
}

// What stands along an axis of places instead of their names: rows of a picture, frames, seconds; [{at, text}] with
// `at` in tokens, or null where the tokens' own names do.
function axisTicks(side) {
  const medium = gridOf(side);
  if (!medium) return null;
  const ticks = [];
  for (let i = 0; i < medium.first; ++i) ticks.push({ at: i + 0.5, text: texts(side)[i].text });
  const add = (count, cells, text) => {
    for (let i = 0; i < count; ++i) ticks.push({ at: medium.first + (i + 0.5) * cells, text: text(i) });
  };
  if (medium.kind === "picture") add(medium.rows, medium.columns, (i) => say("rowTick", i + 1));
  else if (medium.kind === "video") {
    add(medium.frames, medium.cells, (i) => (side === "key" ? String(i + 1) : say("frame", i + 1)));
  } else if (medium.seconds > 0) {
    for (const { column, text } of timeTicks(medium, 8)) ticks.push({ at: medium.first + column, text });
  } else add(medium.columns, 1, (i) => String(i + 1));
  return ticks;
}

const axisNames = (side) => axisTicks(side) ?? texts(side);

// Calls paint(at, text) for the ticks in a window that do not touch, `room(text)` pixels each.
function eachTick(ticks, { start, length, pixels }, room, paint) {
  let end = -Infinity;
  for (const { at, text } of ticks) {
    const place = ((at - start) * pixels) / length;
    const half = room(text) / 2;
    if (place < 0 || place > pixels || place - half < end || place + half > pixels + 16) continue;
    end = place + half;
    paint(place, text);
  }
}

// Sizes of a map for a given width: gutters for labels, the area of cells, in CSS pixels.
function layoutOf(width, highest) {
  const rows = part().queries.length;
  const keys = part().keys.length;
  const bolder = hasMedia() ? 1.1 : 1;
  const widest = Math.min(hasMedia() ? 180 : 130, width * 0.25);
  const left = Math.ceil(longestLabel(axisNames("query"), widest) * bolder) + 14;
  const longest = longestLabel(axisNames("key"), 96) * bolder + 6; // bold ones are a little longer
  let right = 4;
  let cell = Math.min(LARGEST_CELL, (width - left - right) / keys);
  const ticks = axisTicks("key") !== null; // written level
  const slanted = cell >= 14 && !ticks;
  if (slanted) {
    right = Math.min(longest * Math.cos(SLANT) * 0.7, 44);
    cell = Math.min(LARGEST_CELL, (width - left - right) / keys);
  }
  const top = ticks ? 24 : Math.ceil(slanted ? longest * Math.sin(-SLANT) + 14 : longest + 10);
  // Few words over many places get rows that can be read.
  const high = Math.min(ticks && !gridOf("query") ? Math.max(cell, Math.min(26, 300 / rows)) : cell, highest / rows);
  return { rows, keys, left, top, slanted, longest,
    width: Math.round(cell * keys), height: Math.max(1, Math.round(high * rows)),
    total: Math.ceil(left + cell * keys + right), totalHeight: Math.ceil(top + high * rows + 2) };
}

// The cells in sight.
function cellWindow(layout) {
  const width = layout.keys / zoom.factor;
  const height = layout.rows / zoom.factor;
  zoom.x = Math.max(0, Math.min(zoom.x, layout.keys - width));
  zoom.y = Math.max(0, Math.min(zoom.y, layout.rows - height));
  return { x: zoom.x, y: zoom.y, width, height };
}

// Paints cells, hairlines and labels; `context` is scaled by `ratio` and lies at device pixel (x, y).
function paintMap(context, matrix, layout, { ratio, x = 0, y = 0, window = cellWindow(layout) }) {
  const image = context.createImageData(Math.round(layout.width * ratio), Math.round(layout.height * ratio));
  paintMatrix(image, matrix, window);
  context.putImageData(image, x + Math.round(layout.left * ratio), y + Math.round(layout.top * ratio));
  const cellWidth = layout.width / window.width;
  const cellHeight = layout.height / window.height;
  if (Math.min(cellWidth, cellHeight) >= 9) paintHairlines(context, layout, window);
  paintKeyLabels(context, layout, window, cellWidth);
  paintQueryLabels(context, layout, window, cellHeight);
}

function paintHairlines(context, layout, window) {
  context.strokeStyle = cssColor("--panel");
  context.lineWidth = 1;
  context.beginPath();
  for (let k = Math.ceil(window.x); k <= window.x + window.width; ++k) {
    const at = layout.left + ((k - window.x) * layout.width) / window.width;
    context.moveTo(at, layout.top);
    context.lineTo(at, layout.top + layout.height);
  }
  for (let q = Math.ceil(window.y); q <= window.y + window.height; ++q) {
    const at = layout.top + ((q - window.y) * layout.height) / window.height;
    context.moveTo(layout.left, at);
    context.lineTo(layout.left + layout.width, at);
  }
  context.stroke();
}

const labelSize = (cell) => Math.max(SMALLEST_LABEL, Math.min(LABEL_SIZE, Math.floor(cell * 0.85)));
// Every so many labels that neighbours do not touch.
const labelStep = (cell) => Math.max(1, Math.ceil((labelSize(cell) + 1) / cell));

// One token; a strong one has a rim of the ground's colour, so that it reads above its neighbours.
function paintLabel(context, token, { size, strong, most, x, y }) {
  context.font = `${strong ? "600 " : ""}${size}px ${FONT}`;
  context.textBaseline = "middle";
  const text = shortLabel(context, token.text, most);
  if (strong) {
    context.strokeStyle = cssColor("--panel");
    context.lineWidth = hasMedia() ? 11 : 6;
    context.lineJoin = "round";
    context.strokeText(text, x, y);
  }
  context.fillStyle = cssColor(token.special && !strong ? "--muted" : "--ink");
  context.fillText(text, x, y);
}

// Calls paint for every step-th place from `first` on, below `end`.
function eachLabel(first, end, step, paint) {
  for (let place = Math.ceil(first / step) * step; place < end; place += step) paint(place);
}

// What a label from `from` to `to` covers: the ticks of the keys that it would cut are covered whole.
function groundBetweenTicks(context, layout, window, from, to) {
  const ground = { from, to };
  context.font = `12px ${FONT}`;
  const axis = { start: window.x, length: window.width, pixels: layout.width };
  eachTick(axisTicks("key"), axis, (text) => context.measureText(text).width + 10, (place, text) => {
    const half = context.measureText(text).width / 2 + 1;
    const centre = layout.left + place;
    if (centre + half <= from || centre - half >= to) return;
    ground.from = Math.min(ground.from, centre - half);
    ground.to = Math.max(ground.to, centre + half);
  });
  return ground;
}

function paintTicks(context, layout, window, side) {
  const down = side === "query";
  context.font = `12px ${FONT}`;
  context.fillStyle = cssColor("--muted");
  context.textBaseline = "middle";
  context.textAlign = down ? "right" : "center";
  const axis = down ? { start: window.y, length: window.height, pixels: layout.height }
    : { start: window.x, length: window.width, pixels: layout.width };
  eachTick(axisTicks(side), axis, (text) => (down ? 14 : context.measureText(text).width + 10), (place, text) => {
    if (down) context.fillText(shortLabel(context, text, layout.left - 8), layout.left - 7, layout.top + place);
    else context.fillText(text, layout.left + place, layout.top - 11);
  });
}

function paintQueryLabels(context, layout, window, cell) {
  if (axisTicks("query")) return paintTicks(context, layout, window, "query");
  eachLabel(window.y, Math.min(layout.rows, window.y + window.height), labelStep(cell),
    (q) => paintQueryLabel(context, layout, window, q, false));
}

function paintQueryLabel(context, layout, window, q, strong) {
  const y = layout.top + ((q + 0.5 - window.y) * layout.height) / window.height;
  if (y < layout.top || y > layout.top + layout.height) return;
  const token = part().queryTexts[q];
  context.textAlign = "right";
  paintLabel(context, token, { size: labelSize(layout.height / window.height), strong, most: layout.left - 8,
    x: layout.left - 7, y });
}

function paintKeyLabels(context, layout, window, cell) {
  if (axisTicks("key")) return paintTicks(context, layout, window, "key");
  eachLabel(window.x, Math.min(layout.keys, window.x + window.width), labelStep(layout.slanted ? cell * 1.3 : cell),
    (k) => paintKeyLabel(context, layout, window, k, false));
}

function paintKeyLabel(context, layout, window, k, strong) {
  const x = layout.left + ((k + 0.5 - window.x) * layout.width) / window.width;
  if (x < layout.left || x > layout.left + layout.width) return;
  const token = part().keyTexts[k];
  if (gridOf("key")) {
    context.font = `600 12px ${FONT}`;
    const half = context.measureText(token.text).width / 2;
    const centre = Math.min(layout.total - half, Math.max(half, x));
    const ground = groundBetweenTicks(context, layout, window, centre - half - 5, centre + half + 5);
    context.textAlign = "center";
    context.fillStyle = cssColor("--panel");
    context.fillRect(ground.from, layout.top - 22, ground.to - ground.from, 20);
    return paintLabel(context, token, { size: 12, strong, most: Infinity, y: layout.top - 11, x: centre });
  }
  context.save();
  context.translate(x + (layout.slanted ? -2 : 0), layout.top - 6);
  context.rotate(layout.slanted ? SLANT : -Math.PI / 2);
  context.textAlign = "left";
  const size = labelSize(layout.width / window.width);
  paintLabel(context, token, { size, strong, most: layout.longest, x: 0, y: 0 });
  context.restore();
}

class MapView {
  constructor() {
    this.title = make("figcaption", {});
    this.canvas = make("canvas", { "aria-hidden": true });
    this.overlay = make("canvas", { class: "overlay", tabindex: 0, role: "application" });
    this.frame = make("div", { class: "map-frame" }, this.canvas, this.overlay);
    this.element = make("figure", { class: "map" }, this.title, this.frame);
    this.layout = null;
    this.matrix = null;
    this.listen();
  }

  listen() {
    const { overlay } = this;
    let drag = null;
    overlay.addEventListener("pointerdown", (event) => {
      drag = { x: event.clientX, y: event.clientY, startX: zoom.x, startY: zoom.y, moved: false };
    });
    overlay.addEventListener("pointermove", (event) => {
      if (drag && event.buttons && zoom.factor > 1) {
        const moved = Math.hypot(event.clientX - drag.x, event.clientY - drag.y);
        if (moved > 4 && !drag.moved) {
          drag.moved = true;
          overlay.setPointerCapture(event.pointerId);
        }
        if (drag.moved) return this.pan(drag, event);
      }
      if (event.pointerType === "mouse") setHover(this.wordAt(event));
    });
    overlay.addEventListener("pointerleave", () => setHover(null));
    overlay.addEventListener("click", (event) => {
      const word = drag && drag.moved ? null : this.wordAt(event);
      drag = null;
      if (word) togglePin(word.side, word.index);
    });
    overlay.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
      event.preventDefault();
      const place = this.place(event);
      zoomBy(event.deltaY < 0 ? 1.25 : 0.8, place);
    }, { passive: false });
    overlay.addEventListener("keydown", (event) => this.key(event));
    overlay.addEventListener("blur", () => setHover(null));
  }

  // Where the pointer is in the area of cells, both from 0 to 1.
  place(event) {
    const box = this.overlay.getBoundingClientRect();
    return { x: (event.clientX - box.left - this.layout.left) / this.layout.width,
      y: (event.clientY - box.top - this.layout.top) / this.layout.height };
  }

  // The word that a cell or an axis label under the pointer means.
  wordAt(event) {
    if (!this.layout) return null;
    const { x, y } = this.place(event);
    const window = cellWindow(this.layout);
    const key = Math.floor(window.x + x * window.width);
    const query = Math.floor(window.y + y * window.height);
    if (y >= 0 && y < 1 && x < 0) return { side: "query", index: query };
    if (x >= 0 && x < 1 && y < 0) return { side: "key", index: key };
    return x >= 0 && x < 1 && y >= 0 && y < 1 ? { side: "query", index: query, other: key } : null;
  }

  pan(drag, event) {
    const window = cellWindow(this.layout);
    zoom.x = drag.startX - ((event.clientX - drag.x) * window.width) / this.layout.width;
    zoom.y = drag.startY - ((event.clientY - drag.y) * window.height) / this.layout.height;
    requestMaps();
  }

  key(event) {
    const word = active() ?? { side: "query", index: 0 };
    const at = { index: word.side === "query" ? word.index : word.other ?? 0,
      other: word.side === "query" ? word.other ?? 0 : word.index };
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key in moves) {
      const [down, right] = active() ? moves[event.key] : [0, 0];
      const clamp = (value, count) => Math.max(0, Math.min(count - 1, value));
      setHover({ side: "query", index: clamp(at.index + down, part().queries.length),
        other: clamp(at.other + right, part().keys.length) });
      showCell(state.hover);
    } else if (event.key === "Enter" || event.key === " ") togglePin("query", at.index);
    else return;
    event.preventDefault();
  }

  show(view, matrix, width, highest) {
    this.view = view;
    this.matrix = matrix;
    this.layout = layoutOf(width, highest);
    this.title.textContent = matrix ? "" : say("loading");
    this.overlay.setAttribute("aria-label", say("map", viewName(view)));
    for (const canvas of [this.canvas, this.overlay]) {
      fitCanvas(canvas, this.layout.total, this.layout.totalHeight);
      canvas.style.width = `${this.layout.total}px`;
      canvas.style.height = `${this.layout.totalHeight}px`;
    }
    this.draw();
  }

  draw() {
    if (!this.layout || !this.matrix) return;
    const context = this.canvas.getContext("2d");
    const ratio = this.canvas.width / this.layout.total;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.layout.total, this.layout.totalHeight);
    paintMap(context, this.matrix, this.layout, { ratio });
    this.overlay.classList.toggle("zoomed", zoom.factor > 1);
    this.drawActive();
  }

  // The active row or column stays clear, the rest pales; its label stands out.
  drawActive() {
    if (!this.layout) return;
    const { layout } = this;
    const context = this.overlay.getContext("2d");
    const ratio = this.overlay.width / layout.total;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, layout.total, layout.totalHeight);
    const word = active();
    if (!word || !this.matrix) return;
    const window = cellWindow(layout);
    const cellWidth = layout.width / window.width;
    const cellHeight = layout.height / window.height;
    const column = (k) => layout.left + (k - window.x) * cellWidth;
    const row = (q) => layout.top + (q - window.y) * cellHeight;
    // Lines less than a few pixels high get a rim of their neighbours, or the frame would hide them.
    const rim = (cell) => Math.max(0, 2 - cell / 2);
    const [rimX, rimY] = [rim(cellWidth), rim(cellHeight)];
    const box = word.side === "query"
      ? [layout.left, row(word.index) - rimY, layout.width, cellHeight + 2 * rimY]
      : [column(word.index) - rimX, layout.top, cellWidth + 2 * rimX, layout.height];
    context.save();
    context.beginPath();
    context.rect(layout.left - 1, layout.top - 1, layout.width + 2, layout.height + 2);
    context.clip();
    context.fillStyle = cssColor("--veil");
    context.beginPath();
    context.rect(layout.left, layout.top, layout.width, layout.height);
    context.rect(box[0] + box[2], box[1], -box[2], box[3]); // turned the other way: a hole
    context.fill();
    context.strokeStyle = cssColor("--ink");
    context.lineWidth = rimY > 0 ? 1 : 1.5;
    context.strokeRect(...box);
    if (word.other !== undefined && cellWidth >= 3) {
      context.lineWidth = 2.5;
      context.strokeRect(column(word.other), row(word.index), cellWidth, cellHeight);
    }
    context.restore();
    this.drawActiveLabels(context, word, window);
  }

  drawActiveLabels(context, word, window) {
    const { layout } = this;
    const best = strongest(lineOf(this.matrix, word.side, word.index), 1);
    const other = word.other ?? best[0];
    const query = word.side === "query" ? word.index : other;
    const key = word.side === "query" ? other : word.index;
    if (query !== undefined) paintQueryLabel(context, layout, window, query, true);
    if (key !== undefined) paintKeyLabel(context, layout, window, key, true);
  }
}

const mapViews = [new MapView(), new MapView()];
maps.append(...mapViews.map((map) => map.element));

const requestMaps = oncePerFrame(() => {
  for (const map of mapViews) map.draw();
});

// Zooms around a place given from 0 to 1 on both axes; without one, towards the active word.
function zoomBy(factor, place) {
  const { layout } = mapViews[0];
  if (!layout) return;
  const before = cellWindow(layout);
  const closest = Math.max(1, Math.max(layout.keys, layout.rows) / 8); // eight cells across
  zoom.factor = Math.max(1, Math.min(closest, zoom.factor * factor));
  const after = { width: layout.keys / zoom.factor, height: layout.rows / zoom.factor };
  const cell = place ? null : activeCell();
  const kept = (share, first, was, is) => first + (was - is) * Math.max(0, Math.min(1, share ?? 0.5));
  zoom.x = cell ? cell.key + 0.5 - after.width / 2 : kept(place?.x, before.x, before.width, after.width);
  zoom.y = cell ? cell.query + 0.5 - after.height / 2 : kept(place?.y, before.y, before.height, after.height);
  requestMaps();
}

// The cell that the active word means: the one pointed at, or the strongest of its line.
function activeCell() {
  const word = active();
  const { matrix } = mapViews[0];
  if (!word || !matrix) return null;
  const other = word.other ?? strongest(lineOf(matrix, word.side, word.index), 1)[0] ?? 0;
  return word.side === "query" ? { query: word.index, key: other } : { query: other, key: word.index };
}

// Brings a cell into sight.
function showCell(word) {
  const { layout } = mapViews[0];
  if (!layout || zoom.factor === 1) return;
  const window = cellWindow(layout);
  zoom.x = Math.min(Math.max(zoom.x, word.other + 1 - window.width), word.other);
  zoom.y = Math.min(Math.max(zoom.y, word.index + 1 - window.height), word.index);
  requestMaps();
}

// Draws the chosen view, and the compared one beside it or, where it is narrow, under it.
function renderMaps() {
  const views = [state.view, state.compared];
  document.querySelector(".columns").classList.toggle("comparing", Boolean(state.compared));
  const beside = state.compared && maps.clientWidth >= 560;
  maps.classList.toggle("beside", Boolean(beside));
  const width = Math.max(160, beside ? (maps.clientWidth - 20) / 2 : maps.clientWidth);
  const highest = Math.max(360, innerHeight - 440); // the whole map in sight beside the sentences
  const matrices = views.map((view) => view && matrixOf(state.part, view));
  views.forEach((view, i) => {
    mapViews[i].element.hidden = !view;
    if (view) mapViews[i].show(view, matrices[i], width, highest);
  });
  if (state.compared) for (const map of mapViews) map.title.textContent = viewName(map.view);
  renderDetailTitle(matrices);
}

function renderDetailTitle(matrices) {
  const title = document.getElementById("detail-title");
  title.replaceChildren(state.compared ? say("compare") : viewName(state.view));
  if (!state.compared || !matrices[0] || !matrices[1]) return;
  const stop = make("button", { type: "button", class: "quiet", "aria-label": say("stopComparing"),
    title: say("stopComparing"), onclick: () => compareWith(state.compared) }, "×");
  const alike = say("alike", percent(alikeness(matrices[0], matrices[1])));
  title.append(make("span", { class: "muted" }, ` ${alike} `), stop);
}
