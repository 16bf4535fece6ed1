// Heads as small multiples: each a little map; those in sight are drawn, a few in every frame.
const tilesBox = document.getElementById("tiles");
let tiles = [];
const FRAME_BUDGET = 8; // milliseconds of drawing in one frame, half of what there is

const tilesInSight = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const tile = tiles.find((one) => one.element === entry.target);
    if (tile) tile.visible = entry.isIntersecting;
  }
  requestTiles();
}, { rootMargin: "150px" });

function makeTile(view, name) {
  const canvas = make("canvas", { "aria-hidden": true });
  const marker = make("span", { class: "marker", hidden: true });
  const caption = make("span", { class: "caption" });
  const frame = make("span", { class: "frame" }, canvas, marker);
  const button = make("button", { type: "button", class: "tile-map", tabindex: -1, title: viewName(view) },
    make("span", { class: "name" }, name), frame, caption);
  const label = say("compareWith", viewName(view));
  const compare = make("button", { type: "button", class: "compare", tabindex: -1, title: label, "aria-label": label },
    "⇄");
  const element = make("div", { class: "tile" }, button, compare);
  const tile = { view, name, element, button, canvas, marker, caption, compare, visible: false, drawn: false };
  button.addEventListener("click", (event) => (event.shiftKey ? compareWith(view) : chooseView(view)));
  compare.addEventListener("click", () => compareWith(view));
  const medium = tileSide() ? gridOf(tileSide()) : null;
  const perLine = medium ? framesPerLine(medium.frames) : 1;
  const shape = medium ? perLine / Math.ceil(medium.frames / perLine) / aspectOf(medium)
    : part().keys.length / part().queries.length;
  frame.style.aspectRatio = String(Math.min(2, Math.max(0.6, shape)));
  tilesInSight.observe(element);
  return tile;
}

function summaryViews() {
  const views = [{ kind: "meanAll", layer: 0, head: 0 }];
  if (hasRollout(state.part)) views.push({ kind: "rollout", layer: 0, head: 0 });
  return views;
}

function shortName(view) {
  if (view.kind === "head") return say("headNumber", view.head + 1);
  return say(view.kind === "rollout" ? "rollout" : `${view.kind}Short`);
}

function renderTiles() {
  tilesInSight.disconnect();
  tilesBox.replaceChildren();
  tiles = [];
  const addGrid = (views, title, small) => {
    const grid = make("div", { class: small ? "grid small" : "grid", role: "group", "aria-label": title });
    for (const view of views) {
      const tile = makeTile(view, shortName(view));
      tiles.push(tile);
      grid.append(tile.element);
    }
    if (small) tilesBox.append(make("h3", {}, title));
    tilesBox.append(grid);
  };
  if (state.layer === "all") {
    addGrid(summaryViews(), say("averages"), true);
    for (let layer = 0; layer < part().layers; ++layer) {
      addGrid(viewsOfLayer(layer), say("layerNumber", layer + 1), true);
    }
  } else {
    addGrid([...viewsOfLayer(state.layer).slice(1), ...viewsOfLayer(state.layer).slice(0, 1), ...summaryViews()],
      say("layerNumber", state.layer + 1), false);
  }
  renderChosenTiles();
}

// Marks the chosen view and the compared one.
function renderChosenTiles() {
  let reachable = false;
  for (const tile of tiles) {
    const chosen = sameView(tile.view, state.view);
    tile.element.classList.toggle("chosen", Boolean(chosen));
    tile.element.classList.toggle("second", Boolean(sameView(tile.view, state.compared)));
    tile.button.setAttribute("aria-pressed", String(Boolean(chosen)));
    tile.compare.setAttribute("aria-pressed", String(Boolean(sameView(tile.view, state.compared))));
    tile.button.tabIndex = tile.compare.tabIndex = chosen ? 0 : -1;
    reachable ||= Boolean(chosen);
  }
  if (!reachable && tiles.length > 0) tiles[0].button.tabIndex = 0;
}

function redrawTiles() {
  for (const tile of tiles) tile.drawn = false;
  requestTiles();
}

const requestTiles = oncePerFrame(drawTiles);

function drawTiles() {
  const start = performance.now();
  for (const tile of tiles) {
    if (!tile.visible || tile.drawn) continue;
    const matrix = matrixOf(state.part, tile.view);
    if (!matrix) {
      const wanted = state.part;
      load(wanted, blockName(tile.view)).then(() => wanted === state.part && requestTiles(), showFailure);
      continue;
    }
    drawTile(tile, matrix);
    if (performance.now() - start > FRAME_BUDGET) return requestTiles();
  }
}

function drawTile(tile, matrix) {
  const box = tile.canvas.parentElement.getBoundingClientRect();
  if (box.width === 0) return;
  fitCanvas(tile.canvas, box.width, box.height);
  const context = tile.canvas.getContext("2d");
  if (tileSide()) { // the active word's light, which is drawn below
    tile.drawn = true;
    return renderActiveTile(tile, matrix, active());
  }
  const image = context.createImageData(tile.canvas.width, tile.canvas.height);
  paintMatrix(image, matrix, { x: 0, y: 0, width: matrix.keys, height: matrix.rows });
  context.putImageData(image, 0, 0);
  tile.drawn = true;
  renderActiveTile(tile, matrix, active());
}

// The picture or the frames, lit by what the active word looks at, or by what the head looks at on the whole.
function drawMediumTile(tile, matrix, word) {
  const side = tileSide();
  const medium = gridOf(side);
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  const width = tile.canvas.width / ratio;
  const perLine = framesPerLine(medium.frames);
  const layout = { perLine, gap: 0, bar: 0, width: width / perLine, height: (width / perLine) * aspectOf(medium) };
  const context = tile.canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, tile.canvas.height);
  const lit = word && (otherSide(word.side) === side || (part().same && gridOf("query") === gridOf("key")));
  const whole = side === "key" ? meanLight(matrix) : null;
  paintFrames(context, medium, layout, lit ? lightOf(matrix, word) : whole);
  const place = word && word.side === side && !part().same ? placeOf(medium, word.index) : null;
  if (place) paintCell(context, cellBox(medium, layout, place));
}

// Shows the active word's row (or column) in a tile, and what is strongest in it.
function renderActiveTile(tile, matrix, word) {
  const medium = Boolean(tileSide());
  if (medium && matrix && tile.drawn) drawMediumTile(tile, matrix, word);
  tile.marker.hidden = !word || medium;
  if (!word || !matrix) {
    tile.caption.textContent = "";
    tile.button.setAttribute("aria-label", viewName(tile.view));
    return;
  }
  const { style } = tile.marker;
  const count = word.side === "query" ? matrix.rows : matrix.keys;
  const [size, place] = [`max(2px, ${100 / count}%)`, `${(100 * word.index) / count}%`];
  if (word.side === "query") Object.assign(style, { top: place, left: "0", height: size, width: "100%" });
  else Object.assign(style, { top: "0", left: place, height: "100%", width: size });
  const line = lineOf(matrix, word.side, word.index);
  const [best] = strongestEntries(line, otherSide(word.side), 1);
  if (best === undefined) return tile.caption.replaceChildren();
  const { text } = best;
  const share = percent(best.weight);
  tile.caption.replaceChildren(...(medium ? [share] : [make("bdi", {}, text), ` ${share}`]));
  tile.button.setAttribute("aria-label", `${viewName(tile.view)}: ${text} ${share}`);
}

function renderActiveTiles() {
  const word = active();
  for (const tile of tiles) {
    if (tile.visible) renderActiveTile(tile, matrixOf(state.part, tile.view), word);
  }
}

// The tile that an arrow key leads to: the next one, or the nearest in the line of tiles above or below.
function neighbour(from, key) {
  const at = tiles.indexOf(from);
  if (key === "ArrowRight") return tiles[at + 1];
  if (key === "ArrowLeft") return tiles[at - 1];
  if (key === "Home") return tiles[0];
  if (key === "End") return tiles[tiles.length - 1];
  const here = from.element.getBoundingClientRect();
  const below = key === "ArrowDown" ? 1 : -1;
  let best;
  let least = Infinity;
  for (const tile of tiles) {
    const there = tile.element.getBoundingClientRect();
    const down = (there.top - here.top) * below;
    const distance = down * 1000 + Math.abs(there.left - here.left);
    if (down > 4 && distance < least) [best, least] = [tile, distance];
  }
  return best;
}

tilesBox.addEventListener("keydown", (event) => {
  const tile = tiles.find((one) => one.button === event.target);
  if (!tile) return;
  if (event.key === "Enter" && event.shiftKey) compareWith(tile.view);
  else if (/^(Arrow(Left|Right|Up|Down)|Home|End)$/.test(event.key)) {
    const next = neighbour(tile, event.key);
    if (next) {
      tile.button.tabIndex = -1;
      next.button.tabIndex = 0;
      next.button.focus();
    }
  } else return;
  event.preventDefault();
});
