// Media: the picture, sound, video or list that tokens are cut from, and the light that weights throw on it.
const HEAT = [[11, 16, 43, 0.68], [59, 16, 107, 0.62], [163, 30, 107, 0.56], [232, 80, 52, 0.52], [253, 160, 30, 0.5],
  [255, 240, 196, 0.5]]; // dark where nothing looks, bright at the strongest; the picture shows through
const LIGHT_SAMPLES = 48; // of a frame's longer side
const INKS = ["--ink-0", "--ink-1", "--ink-2", "--ink-3", "--ink-4", "--ink-5"]; // of curves

const heatPixels = new Uint32Array(256);
const veilPixels = new Uint32Array(256); // of a spectrogram, which has colours of its own: dark where nothing looks
for (let i = 0; i < 256; ++i) {
  const place = (i / 255) * (HEAT.length - 1);
  const low = Math.min(Math.floor(place), HEAT.length - 2);
  const [r, g, b, a] = HEAT[low].map((from, channel) => from + (place - low) * (HEAT[low + 1][channel] - from));
  heatPixels[i] = ((Math.round(a * 255) << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
  veilPixels[i] = ((Math.round(190 * (1 - i / 255)) << 24) | (43 << 16) | (16 << 8) | 11) >>> 0;
}

for (const medium of record.media) {
  medium.grid = medium.kind !== "list";
  medium.cells = medium.grid ? medium.rows * medium.columns : 0; // of one frame
  medium.image = null;
  if (!medium.png) continue;
  const image = new Image();
  image.addEventListener("load", () => {
    medium.image = image;
    redrawMedia();
  });
  image.src = `data:image/png;base64,${medium.png}`;
}

// The medium of a side of a part, or null where it is text.
function mediumOf(one, side) {
  const index = side === "query" ? one.queryMedium : one.keyMedium;
  return index === undefined ? null : record.media[index];
}

function gridOf(side) {
  const medium = mediumOf(part(), side);
  return medium && medium.grid ? medium : null;
}

// The medium whose cells the heads' tiles show: of the keys, else of the queries; a sound is a map there.
function tileSide() {
  return ["key", "query"].find((side) => gridOf(side) && gridOf(side).kind !== "sound");
}

// Frame, row and column of a token, or null where it comes before the grid.
function placeOf(medium, token) {
  const cell = token - medium.first;
  if (cell < 0) return null;
  const inFrame = cell % medium.cells;
  return { frame: Math.floor(cell / medium.cells), row: Math.floor(inFrame / medium.columns),
    column: inFrame % medium.columns };
}

const tokenAt = (medium, { frame, row, column }) =>
  medium.first + frame * medium.cells + row * medium.columns + column;

function secondsText(seconds) {
  return seconds.toFixed(2);
}

// A cell's name in the page's language; names that a program gave by itself stay.
function cellName(medium, token, given) {
  const place = placeOf(medium, token);
  if (!place) return /^class( \d+)?$/.test(given) ? say("classToken") + given.slice(5) : given;
  if (medium.kind === "sound") {
    return medium.seconds > 0 ? `${secondsText(place.column * medium.seconds)} s` : say("position", place.column + 1);
  }
  if (!/^(frame \d+ )?row \d+ column \d+$/.test(given)) return given;
  const patch = medium.cells > 1 || medium.kind === "picture" ? say("patch", place.row + 1, place.column + 1) : "";
  return medium.kind === "video" ? `${say("frame", place.frame + 1)}${patch && " · "}${patch}` : patch;
}

// Names all tokens in the chosen language.
function nameTokens() {
  for (const one of record.parts) {
    for (const side of ["query", "key"]) {
      const medium = mediumOf(one, side);
      const tokens = side === "query" ? one.queries : one.keys;
      const named = tokenTexts(tokens);
      if (medium && medium.grid) {
        named.forEach((token, i) => {
          if (i >= medium.first) token.special = false;
          token.text = cellName(medium, i, token.text);
        });
      }
      one[`${side}Texts`] = named;
    }
  }
}

// What is strongest in a line of weights, as entries {text, weight, index}: stretches of a sound, else single tokens.
function strongestEntries(line, side, count) {
  const medium = gridOf(side);
  if (medium && medium.kind === "video") return strongestFrames(line, medium, count);
  if (!medium || medium.kind !== "sound") {
    return strongest(line, count).map((index) => ({ text: texts(side)[index].text, weight: line[index], index,
      special: texts(side)[index].special }));
  }
  let most = 0;
  for (const weight of line) most = Math.max(most, weight);
  const entries = [];
  for (let i = 0; i < line.length; ++i) {
    if (most === 0 || line[i] < 0.3 * most) continue;
    const entry = { first: i, index: i, weight: 0, special: false };
    for (; i < line.length && line[i] >= 0.3 * most; ++i) {
      entry.weight += line[i];
      entry.end = i + 1;
      if (line[i] > line[entry.index]) entry.index = i;
    }
    entries.push(entry);
  }
  entries.sort((a, b) => b.weight - a.weight);
  for (const entry of entries) entry.text = stretchName(medium, entry.first, entry.end);
  return entries.slice(0, Math.min(count, 3));
}

// Frames of a video with their shares of the weight.
function strongestFrames(line, medium, count) {
  const entries = [];
  for (let frame = 0; frame < medium.frames; ++frame) {
    const start = medium.first + frame * medium.cells;
    const cells = line.subarray(start, start + medium.cells);
    const weight = cells.reduce((a, b) => a + b, 0);
    const index = start + (strongest(cells, 1)[0] ?? 0);
    if (weight > 0) entries.push({ text: say("frame", frame + 1), weight, index, special: false });
  }
  return entries.sort((a, b) => b.weight - a.weight).slice(0, count);
}

function stretchName(medium, first, end) {
  const [from, to] = [Math.max(0, first - medium.first), end - medium.first];
  if (medium.seconds > 0) return `${secondsText(from * medium.seconds)}–${secondsText(to * medium.seconds)} s`;
  return say("position", to - from > 1 ? `${from + 1}–${to}` : from + 1);
}

// A line of weights as light, 0 to 1: of its own strongest, or of the strongest of all where shading is by weight.
function lightOf(matrix, word) {
  const line = lineOf(matrix, word.side, word.index);
  const most = state.scale === "row" ? mostOf(line, gridOf(otherSide(word.side))) : matrix.peak;
  return most > 0 ? line.map((weight) => Math.min(1, weight / most)) : line;
}

// The largest weight in the medium's grid: a class token before it may have more than all of its patches.
function mostOf(line, medium) {
  let most = 0;
  for (let i = medium.first; i < line.length; ++i) most = Math.max(most, line[i]);
  return most;
}

// What a head looks at on the whole: the mean over queries.
function meanLight(matrix) {
  if (!matrix.meanLine) {
    matrix.meanLine = new Float32Array(matrix.keys);
    for (let row = 0; row < matrix.rows; ++row) {
      const factor = matrix.largest[row] / 255 / matrix.rows;
      const start = row * matrix.keys;
      for (let k = 0; k < matrix.keys; ++k) matrix.meanLine[k] += factor * matrix.bytes[start + k];
    }
  }
  const most = mostOf(matrix.meanLine, gridOf("key"));
  return most > 0 ? matrix.meanLine.map((weight) => Math.min(1, weight / most)) : matrix.meanLine;
}

// Weights of the four cells around each of count * scale samples, a cubic B-spline.
function splineOf(count, scale) {
  const samples = [];
  for (let i = 0; i < count * scale; ++i) {
    const place = (i + 0.5) / scale - 0.5;
    const first = Math.floor(place);
    const t = place - first;
    const u = 1 - t;
    samples.push({
      cells: [-1, 0, 1, 2].map((k) => Math.min(count - 1, Math.max(0, first + k))),
      weights: [(u * u * u) / 6, (3 * t * t * t - 6 * t * t + 4) / 6, (3 * u * u * u - 6 * u * u + 4) / 6,
        (t * t * t) / 6],
    });
  }
  return samples;
}

function mix({ cells, weights }, values, start, stride) {
  return weights[0] * values[start + cells[0] * stride] + weights[1] * values[start + cells[1] * stride] +
    weights[2] * values[start + cells[2] * stride] + weights[3] * values[start + cells[3] * stride];
}

// The smooth light of every frame, whose strongest place is as bright as the strongest cell: {width, height, frames}.
function smoothLight(medium, light) {
  const scale = Math.max(1, Math.min(8, Math.floor(LIGHT_SAMPLES / Math.max(medium.rows, medium.columns))));
  medium.splines ??= [splineOf(medium.columns, scale), splineOf(medium.rows, scale)];
  const [across, down] = medium.splines;
  const [width, height] = [across.length, down.length];
  const wide = new Float32Array(width * medium.rows);
  const frames = [];
  let [cellPeak, peak] = [0, 0];
  for (let frame = 0; frame < medium.frames; ++frame) {
    const start = medium.first + frame * medium.cells;
    for (let i = start; i < start + medium.cells; ++i) cellPeak = Math.max(cellPeak, light[i]);
    for (let row = 0; row < medium.rows; ++row) {
      for (let x = 0; x < width; ++x) wide[row * width + x] = mix(across[x], light, start + row * medium.columns, 1);
    }
    const smooth = new Float32Array(width * height);
    for (let y = 0; y < height; ++y) {
      for (let x = 0; x < width; ++x) {
        const value = mix(down[y], wide, x, width);
        smooth[y * width + x] = value;
        if (value > peak) peak = value;
      }
    }
    frames.push(smooth);
  }
  return { width, height, frames, factor: peak > 0 ? cellPeak / peak : 0 };
}

const lightCanvas = document.createElement("canvas");

// Lays the light of a frame over a box.
function paintLight(context, smooth, frame, box, colors = heatPixels) {
  const { width, height, factor } = smooth;
  lightCanvas.width = width;
  lightCanvas.height = height;
  const own = lightCanvas.getContext("2d");
  const image = own.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const values = smooth.frames[frame];
  for (let i = 0; i < pixels.length; ++i) pixels[i] = colors[Math.min(255, Math.round(values[i] * factor * 255))];
  own.putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.imageSmoothingQuality = "high";
  context.drawImage(lightCanvas, box.x, box.y, box.width, box.height);
}

function heatCss() {
  return HEAT.map(([r, g, b, a]) => `rgba(${r},${g},${b},${a})`).join(",");
}

// Height of a picture or of one frame over its width.
function aspectOf(medium) {
  return medium.width > 0 ? (medium.height * medium.frames) / medium.width : medium.rows / medium.columns;
}

// How many frames of a tile stand side by side: nearly a square, without a gap at the end where that is possible.
function framesPerLine(frames) {
  const side = Math.ceil(Math.sqrt(frames));
  for (let count = side; count <= 2 * side; ++count) if (frames % count === 0) return count;
  return side;
}

// Where frames lie for a width: {perLine, width, height, total, totalHeight, bar}; a picture is one frame.
function frameLayout(medium, width, smallest, bar) {
  const gap = medium.frames > 1 ? 4 : 0;
  const fits = Math.max(1, Math.floor((width + gap) / (smallest + gap)));
  const lines = Math.ceil(medium.frames / Math.min(fits, medium.frames));
  const perLine = Math.ceil(medium.frames / lines);
  const frameWidth = (width - gap * (perLine - 1)) / perLine;
  const frameHeight = frameWidth * aspectOf(medium);
  return { perLine, gap, bar, width: frameWidth, height: frameHeight, total: width,
    totalHeight: lines * (frameHeight + bar) + (lines - 1) * gap };
}

function frameBox(layout, frame) {
  const line = Math.floor(frame / layout.perLine);
  return { x: (frame % layout.perLine) * (layout.width + layout.gap),
    y: line * (layout.height + layout.bar + layout.gap), width: layout.width, height: layout.height };
}

function cellBox(medium, layout, place) {
  const box = frameBox(layout, place.frame);
  const [width, height] = [box.width / medium.columns, box.height / medium.rows];
  return { x: box.x + place.column * width, y: box.y + place.row * height, width, height };
}

// Whole frames as tokens: the strongest stays clear, in an amber frame.
function paintRim(context, box, light) {
  context.globalAlpha = Math.min(1, light);
  context.strokeStyle = "#f59e0b";
  context.lineWidth = Math.max(2, box.width / 40);
  const half = context.lineWidth / 2;
  context.strokeRect(box.x + half, box.y + half, box.width - 2 * half, box.height - 2 * half);
  context.globalAlpha = 1;
}

// Paints all frames; `light` is a number for each token, or null for the frames as they are.
function paintFrames(context, medium, layout, light) {
  const smooth = light && smoothLight(medium, light);
  for (let frame = 0; frame < medium.frames; ++frame) {
    const box = frameBox(layout, frame);
    if (medium.image) {
      const width = medium.width / medium.frames;
      context.imageSmoothingEnabled = medium.height >= 40; // a small picture is enlarged as squares
      context.drawImage(medium.image, frame * width, 0, width, medium.height, box.x, box.y, box.width, box.height);
    } else {
      context.fillStyle = cssColor("--scale-1");
      context.fillRect(box.x, box.y, box.width, box.height);
    }
    if (!smooth) continue;
    paintLight(context, smooth, frame, box, medium.cells === 1 ? veilPixels : heatPixels);
    if (medium.cells === 1) paintRim(context, box, smooth.frames[frame][0] * smooth.factor);
  }
}
