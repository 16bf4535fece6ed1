// Stages: the picture, sound or frames beside the sentences, to point at and to be lit.
const stageBox = document.getElementById("stage");
let stages = [];
const LARGEST_PICTURE = 380;

class Stage {
  constructor(sides, medium) {
    this.sides = sides;
    this.medium = medium;
    this.at = medium.first; // the token that the arrow keys start from
    this.canvas = make("canvas", { class: "medium", tabindex: 0, role: "application",
      "aria-label": say("stage", say(medium.kind)) });
    this.element = make("figure", { class: `stage ${medium.kind}` }, make("h3", {}, say(medium.kind)), this.canvas);
    this.listen();
  }

  side() {
    return this.sides.length > 1 ? (state.reverse ? "key" : "query") : this.sides[0];
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType === "mouse") setHover(this.wordAt(event));
    });
    canvas.addEventListener("pointerleave", () => setHover(null));
    canvas.addEventListener("click", (event) => {
      const word = this.wordAt(event);
      if (!word) return;
      this.at = word.index;
      togglePin(word.side, word.index);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => setHover(null));
  }

  wordAt(event) {
    const { medium, layout } = this;
    if (!layout) return null;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (layout.sound) {
      const column = Math.floor((x / layout.width) * medium.columns);
      if (column < 0 || column >= medium.columns || y < layout.names) return null;
      return { side: this.side(), index: tokenAt(medium, { frame: 0, row: 0, column }) };
    }
    for (let frame = 0; frame < medium.frames; ++frame) {
      const area = frameBox(layout, frame);
      const row = Math.floor(((y - area.y) / area.height) * medium.rows);
      const column = Math.floor(((x - area.x) / area.width) * medium.columns);
      if (row < 0 || row >= medium.rows || column < 0 || column >= medium.columns) continue;
      return { side: this.side(), index: tokenAt(medium, { frame, row, column }) };
    }
    return null;
  }

  key(event) {
    const { medium } = this;
    const count = medium.frames * medium.cells;
    const beside = (frames) => frames * medium.cells;
    const { row, column } = placeOf(medium, this.at);
    // At the edge of a frame the next one begins.
    const moves = {
      ArrowRight: column + 1 < medium.columns ? 1 : beside(1) - medium.columns + 1,
      ArrowLeft: column > 0 ? -1 : -beside(1) + medium.columns - 1,
      ArrowDown: row + 1 < medium.rows ? medium.columns : 0,
      ArrowUp: row > 0 ? -medium.columns : 0,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key in moves) {
      const here = state.hover && this.sides.includes(state.hover.side); // else the first key shows where it is
      const cell = this.at - medium.first + (here ? moves[event.key] : 0);
      const outside = cell < 0 || cell >= count;
      if (!outside || Math.abs(cell) === Infinity) this.at = medium.first + Math.max(0, Math.min(count - 1, cell));
      setHover({ side: this.side(), index: this.at });
    } else if (event.key === "Enter" || event.key === " ") togglePin(this.side(), this.at);
    else return;
    event.preventDefault();
  }

  // Takes the room that there is.
  fit() {
    const { medium } = this;
    const width = Math.max(120, Math.floor(this.element.clientWidth));
    const picture = Math.min(width, LARGEST_PICTURE, (innerHeight * 0.62) / aspectOf(medium));
    this.layout = layoutOfMedium(medium, medium.kind === "picture" ? Math.floor(picture) : width);
    fitCanvas(this.canvas, this.layout.total, this.layout.totalHeight);
    this.canvas.style.width = `${this.layout.total}px`;
    this.canvas.style.height = `${this.layout.totalHeight}px`;
  }

  draw(word, matrix) {
    if (!this.layout) return;
    const context = this.canvas.getContext("2d");
    const ratio = this.canvas.width / this.layout.total;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.layout.total, this.layout.totalHeight);
    paintMedium(context, this.medium, this.layout, shownOn(this.sides, word, matrix));
  }
}

// What of the active word shows on a medium of these sides: its light where it looks there, its own place.
function shownOn(sides, word, matrix) {
  const lit = word && matrix && sides.includes(otherSide(word.side));
  return { matrix, word, light: lit ? lightOf(matrix, word) : null,
    own: word && sides.includes(word.side) ? word.index : undefined,
    line: lit ? lineOf(matrix, word.side, word.index) : null };
}

function layoutOfMedium(medium, width) {
  if (medium.kind === "sound") return soundLayout(medium, width);
  return frameLayout(medium, width, medium.frames > 1 ? Math.min(88, Math.max(40, width / 8.6)) : width,
    medium.frames > 1 ? 24 : 0);
}

function paintMedium(context, medium, layout, shown) {
  if (layout.sound) return paintSound(context, medium, layout, shown);
  paintFrames(context, medium, layout, shown.light);
  if (medium.frames > 1) paintShares(context, medium, layout, shown.line);
  const place = shown.own === undefined ? null : placeOf(medium, shown.own);
  if (place) paintCell(context, cellBox(medium, layout, place));
}

// A frame around a patch that reads on dark and on light.
function paintCell(context, { x, y, width, height }) {
  context.lineWidth = 4;
  context.strokeStyle = "rgba(0,0,0,0.55)";
  context.strokeRect(x + 1, y + 1, width - 2, height - 2);
  context.lineWidth = 2;
  context.strokeStyle = "#ffffff";
  context.strokeRect(x + 1, y + 1, width - 2, height - 2);
}

// Under each frame of a video its share of the weight, or its time.
function paintShares(context, medium, layout, line) {
  const shares = [];
  for (let frame = 0; frame < medium.frames; ++frame) {
    const start = medium.first + frame * medium.cells;
    shares.push(line ? line.subarray(start, start + medium.cells).reduce((a, b) => a + b, 0) : 0);
  }
  const most = Math.max(...shares);
  context.font = `11px ${FONT}`;
  context.textAlign = "left";
  context.textBaseline = "top";
  for (let frame = 0; frame < medium.frames; ++frame) {
    const box = frameBox(layout, frame);
    const y = box.y + box.height + 3;
    if (most > 0) {
      context.fillStyle = cssColor("--accent");
      context.fillRect(box.x, y, Math.max(1, (box.width * shares[frame]) / most), 4);
    }
    const time = medium.seconds > 0 ? `${secondsText(frame * medium.seconds)} s` : String(frame + 1);
    context.fillStyle = cssColor("--muted");
    context.fillText(most > 0 ? percent(shares[frame]) : time, box.x, y + 7);
  }
}

// Makes the stages of the part: one where both sides are cut from the same thing.
function renderStages() {
  const { same } = part();
  stages = [];
  for (const side of ["query", "key"]) {
    const medium = gridOf(side);
    if (!medium) continue;
    const twin = stages.find((stage) => stage.medium === medium && same);
    if (twin) twin.sides.push(side);
    else stages.push(new Stage([side], medium));
  }
  stageBox.replaceChildren(...stages.map((stage) => stage.element));
  stageBox.hidden = stages.length === 0;
  const words = document.getElementById("words");
  words.classList.toggle("with-media", stages.length > 0);
  words.classList.toggle("with-picture", stages.length > 0 && stages.every((stage) => stage.medium.kind === "picture"));
  fitStages();
}

function fitStages() {
  for (const stage of stages) stage.fit();
}

function renderActiveStages(matrix) {
  for (const stage of stages) stage.draw(active(), matrix);
  markStrip();
}

// When a picture has been decoded.
function redrawMedia() {
  if (document.documentElement.dataset.ready !== "true") return;
  redrawTiles();
  drawStrip(matrixOf(state.part, state.view));
  renderActive();
}
