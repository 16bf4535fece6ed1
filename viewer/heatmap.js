// Colours, and painting weights into pixels.
let palette = new Uint32Array(256); // pixels, as ImageData wants them
let paletteCss = []; // the same as CSS colours
let paletteInk = []; // a text colour that reads on each

const ROOTS = Float32Array.from({ length: 256 }, (_, byte) => Math.sqrt(byte / 255));

const colors = new Map(); // custom properties of the style sheet, read once for each theme
function cssColor(name) {
  if (!colors.has(name)) colors.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  return colors.get(name);
}

function readColor(text) {
  const value = parseInt(text.slice(1), 16);
  return [value >> 16, (value >> 8) & 255, value & 255];
}

// Takes the five colours of the scale from the style sheet, where light and dark differ.
function readPalette() {
  colors.clear();
  const stops = [0, 1, 2, 3, 4].map((i) => readColor(cssColor(`--scale-${i}`)));
  for (let i = 0; i < 256; ++i) {
    const place = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    const mix = (from, to) => Math.round(from + (place - low) * (to - from));
    const [r, g, b] = stops[low].map((from, channel) => mix(from, stops[low + 1][channel]));
    palette[i] = (255 << 24) | (b << 16) | (g << 8) | r;
    paletteCss[i] = `rgb(${r},${g},${b})`;
    paletteInk[i] = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#14181d" : "#ffffff";
  }
}

// What to multiply the root of a row's byte by to get its shade, 0 to 255: by weight the root of the weight against the
// peak, by row against the row's own largest.
function rowFactor(matrix, row) {
  if (state.scale === "row") return 255;
  return matrix.peak > 0 ? 255 * Math.sqrt(matrix.largest[row] / matrix.peak) : 0;
}

// The palette's index for a weight of a row.
function shadeAt(matrix, row, key) {
  return Math.min(255, Math.round(rowFactor(matrix, row) * ROOTS[matrix.bytes[row * matrix.keys + key]]));
}

// First and last + 1 cell under each of `pixels` pixels, for a stretch of cells.
function cellsUnder(pixels, start, length, count) {
  const first = new Int32Array(pixels);
  const end = new Int32Array(pixels);
  for (let i = 0; i < pixels; ++i) {
    first[i] = Math.min(count - 1, Math.max(0, Math.floor(start + (i * length) / pixels)));
    end[i] = Math.min(count, Math.max(first[i] + 1, Math.floor(start + ((i + 1) * length) / pixels)));
  }
  return { first, end };
}

// Paints a window of cells {x, y, width, height} over the whole image. A pixel over several cells shows the strongest,
// so that single strong weights never vanish.
function paintMatrix(image, matrix, window) {
  const pixels = new Uint32Array(image.data.buffer);
  const columns = cellsUnder(image.width, window.x, window.width, matrix.keys);
  const rows = cellsUnder(image.height, window.y, window.height, matrix.rows);
  for (let y = 0; y < image.height; ++y) {
    const line = y * image.width;
    if (y > 0 && rows.first[y] === rows.first[y - 1] && rows.end[y] === rows.end[y - 1]) {
      pixels.copyWithin(line, line - image.width, line);
      continue;
    }
    paintLine(pixels, line, matrix, rows.first[y], rows.end[y], columns);
  }
}

function paintLine(pixels, line, matrix, firstRow, endRow, columns) {
  const { first, end } = columns;
  const shades = new Float32Array(first.length);
  for (let row = firstRow; row < endRow; ++row) {
    const factor = rowFactor(matrix, row);
    const start = row * matrix.keys;
    for (let x = 0; x < first.length; ++x) {
      let byte = 0;
      for (let k = start + first[x]; k < start + end[x]; ++k) if (matrix.bytes[k] > byte) byte = matrix.bytes[k];
      const shade = factor * ROOTS[byte];
      if (shade > shades[x]) shades[x] = shade;
    }
  }
  for (let x = 0; x < first.length; ++x) pixels[line + x] = palette[Math.min(255, Math.round(shades[x]))];
}

// Gives a canvas the pixels that its size on the screen asks for; true where that changed it.
function fitCanvas(canvas, width, height) {
  const ratio = Math.min(2, window.devicePixelRatio || 1);
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width === w && canvas.height === h) return false;
  canvas.width = w;
  canvas.height = h;
  return true;
}
