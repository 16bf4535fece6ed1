// The record and its weights. A block is [rows' largest weights, float32][rows x keys bytes], packed by zlib and
// base64; it is unpacked when it is first wanted.
const record = JSON.parse(document.getElementById("record").textContent);
const blocks = new Map(); // "part-name" -> {largest, bytes, heads, peak} once unpacked
const loading = new Map(); // the same -> its promise

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function unpack(part, name) {
  const element = document.getElementById(`weights-${part}-${name}`);
  const packed = bytesOfBase64(element.textContent.trim());
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const { queries, keys, heads } = record.parts[part];
  const count = /^\d+$/.test(name) ? heads : 1;
  const rows = count * queries.length;
  const view = new DataView(buffer);
  const largest = new Float32Array(rows);
  let peak = 0;
  for (let i = 0; i < rows; ++i) {
    largest[i] = view.getFloat32(4 * i, true);
    peak = Math.max(peak, largest[i]);
  }
  return { largest, bytes: new Uint8Array(buffer, 4 * rows, rows * keys.length), heads: count, peak };
}

// Unpacks a block, once; resolves to it.
function load(part, name) {
  const id = `${part}-${name}`;
  if (!loading.has(id)) {
    loading.set(id, unpack(part, name).then((block) => {
      blocks.set(id, block);
      return block;
    }));
  }
  return loading.get(id);
}

// The block that a view needs.
function blockName(view) {
  return view.kind === "meanAll" ? "mean" : view.kind === "rollout" ? "rollout" : String(view.layer);
}

function hasRollout(part) {
  return document.getElementById(`weights-${part}-rollout`) !== null;
}

// Makes rows of plain numbers look like an unpacked block's.
function quantize(values, rows, keys) {
  const largest = new Float32Array(rows);
  const bytes = new Uint8Array(rows * keys);
  let peak = 0;
  for (let r = 0; r < rows; ++r) {
    let most = 0;
    for (let k = r * keys; k < (r + 1) * keys; ++k) if (values[k] > most) most = values[k];
    largest[r] = most;
    if (most > peak) peak = most;
    const factor = most > 0 ? 255 / most : 0;
    for (let k = r * keys; k < (r + 1) * keys; ++k) bytes[k] = values[k] * factor + 0.5;
  }
  return { largest, bytes, peak };
}

function meanOfHeads(block, rows, keys) {
  const sum = new Float32Array(rows * keys);
  for (let h = 0; h < block.heads; ++h) {
    for (let r = 0; r < rows; ++r) {
      const factor = block.largest[h * rows + r] / 255 / block.heads;
      const from = (h * rows + r) * keys;
      const to = r * keys;
      for (let k = 0; k < keys; ++k) sum[to + k] += factor * block.bytes[from + k];
    }
  }
  return quantize(sum, rows, keys);
}

// The weights of a view as {rows, keys, largest, bytes, peak}, or null where its block is not unpacked yet. `peak` is
// what the darkest colour stands for.
function matrixOf(part, view) {
  const block = blocks.get(`${part}-${blockName(view)}`);
  if (!block) return null;
  const rows = record.parts[part].queries.length;
  const keys = record.parts[part].keys.length;
  if (view.kind === "mean") {
    block.mean ??= { rows, keys, ...meanOfHeads(block, rows, keys) };
    return block.mean;
  }
  const head = view.kind === "head" ? view.head : 0;
  block.matrices ??= [];
  block.matrices[head] ??= {
    rows, keys, peak: block.peak,
    largest: block.largest.subarray(head * rows, (head + 1) * rows),
    bytes: block.bytes.subarray(head * rows * keys, (head + 1) * rows * keys),
  };
  return block.matrices[head];
}

function weightAt(matrix, row, key) {
  return (matrix.largest[row] * matrix.bytes[row * matrix.keys + key]) / 255;
}

// What a query looks at, or for a key who looks at it: one number per token of the other side.
function lineOf(matrix, side, index) {
  const line = new Float32Array(side === "query" ? matrix.keys : matrix.rows);
  for (let i = 0; i < line.length; ++i) {
    line[i] = side === "query" ? weightAt(matrix, index, i) : weightAt(matrix, i, index);
  }
  return line;
}

// Indices of the strongest entries of a line, the strongest first.
function strongest(line, count) {
  const best = [];
  for (let i = 0; i < line.length; ++i) {
    if (line[i] <= 0 || (best.length === count && line[i] <= line[best[count - 1]])) continue;
    let place = best.length;
    while (place > 0 && line[best[place - 1]] < line[i]) --place;
    best.splice(place, 0, i);
    if (best.length > count) best.pop();
  }
  return best;
}

// How alike two views are: the mean over rows of the weight that both share, 1 where they are the same.
function alikeness(a, b) {
  let shared = 0;
  let rows = 0;
  for (let r = 0; r < a.rows; ++r) {
    if (a.largest[r] === 0 && b.largest[r] === 0) continue;
    ++rows;
    const x = a.largest[r] / 255;
    const y = b.largest[r] / 255;
    for (let k = r * a.keys; k < (r + 1) * a.keys; ++k) shared += Math.min(a.bytes[k] * x, b.bytes[k] * y);
  }
  return rows > 0 ? Math.min(1, shared / rows) : 1;
}
