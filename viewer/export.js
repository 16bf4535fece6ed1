// Saving: the large map (or the compared two) as SVG or PNG, the numbers as JSON.
const MOST_RECTANGLES = 16384; // cells; more than these become a picture inside the SVG
const MOST_NUMBERS = 4e6; // in one JSON; past them only the layer on show is written
const EXPORT_WIDTH = 760;

function save(name, content, type) {
  const address = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

const plainName = (text) => text.replace(/[^\w-]+/g, "_");

function fileName(extension) {
  const { view } = state;
  const head = view.kind === "head" ? `layer-${view.layer + 1}-head-${view.head + 1}` : view.kind === "mean"
    ? `layer-${view.layer + 1}-mean` : view.kind === "meanAll" ? "mean" : "rollout";
  return `attention-${plainName(part().name)}-${head}.${extension}`;
}

// The medium above each map, lit by the active word: {sides, medium, layout}, or null where all is text.
function exportedMedium(width) {
  const side = ["key", "query"].find(gridOf);
  if (!side) return null;
  const medium = gridOf(side);
  const sides = part().same ? ["query", "key"] : [side];
  return { sides, medium, layout: layoutOfMedium(medium, medium.kind === "picture" ? Math.min(width, 320) : width) };
}

// What is saved: titles, matrices and where each map goes. The whole map, whatever the zoom.
function pictures() {
  const layout = layoutOf(EXPORT_WIDTH, 1200);
  const views = [state.view, state.compared].filter((view) => view && matrixOf(state.part, view));
  const margin = 24;
  const title = 34;
  const medium = exportedMedium(layout.total);
  const above = medium ? medium.layout.totalHeight + margin : 0;
  const word = medium && active() ? ` · ${texts(active().side)[active().index].text}` : "";
  return {
    layout, margin, title, medium, above,
    width: margin * 2 + views.length * layout.total + (views.length - 1) * margin,
    height: margin * 2 + title + above + layout.totalHeight,
    maps: views.map((view, i) => ({
      name: `${partName(part())} · ${viewName(view)}${word}`,
      matrix: matrixOf(state.part, view),
      x: margin + i * (layout.total + margin),
      y: margin + title,
    })),
    window: { x: 0, y: 0, width: layout.keys, height: layout.rows },
  };
}

function exportCanvas(ratio) {
  const picture = pictures();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(picture.width * ratio);
  canvas.height = Math.round(picture.height * ratio);
  const context = canvas.getContext("2d");
  context.fillStyle = cssColor("--panel");
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const map of picture.maps) {
    const [x, y] = [Math.round(map.x * ratio), Math.round(map.y * ratio)];
    context.setTransform(ratio, 0, 0, ratio, x, y);
    if (picture.medium) {
      const { sides, medium, layout } = picture.medium;
      paintMedium(context, medium, layout, shownOn(sides, active(), map.matrix));
    }
    const below = Math.round(picture.above * ratio);
    context.setTransform(ratio, 0, 0, ratio, x, y + below);
    paintMap(context, map.matrix, picture.layout, { ratio, x, y: y + below, window: picture.window });
    context.setTransform(ratio, 0, 0, ratio, x, y);
    context.font = `600 15px ${FONT}`;
    context.fillStyle = cssColor("--ink");
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(map.name, 0, 8 - picture.title / 2);
  }
  return canvas;
}

function savePng() {
  exportCanvas(2).toBlob((blob) => blob && save(fileName("png"), blob, "image/png"), "image/png");
}

const escapeMarkup = (text) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

// The medium as an image inside the SVG, in twice its pixels.
function svgMedium({ sides, medium, layout }, matrix) {
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(layout.total * 2);
  canvas.height = Math.round(layout.totalHeight * 2);
  const context = canvas.getContext("2d");
  context.setTransform(2, 0, 0, 2, 0, 0);
  paintMedium(context, medium, layout, shownOn(sides, active(), matrix));
  return `<image width="${layout.total}" height="${layout.totalHeight}" href="${canvas.toDataURL("image/png")}"/>`;
}

function svgTicks(layout, side) {
  const out = [];
  const down = side === "query";
  measuring.font = `12px ${FONT}`;
  const axis = down ? { start: 0, length: layout.rows, pixels: layout.height }
    : { start: 0, length: layout.keys, pixels: layout.width };
  eachTick(axisTicks(side), axis, (text) => (down ? 14 : measuring.measureText(text).width + 10), (place, text) => {
    const at = down ? `x="${layout.left - 7}" y="${(layout.top + place).toFixed(1)}" text-anchor="end"`
      : `x="${(layout.left + place).toFixed(1)}" y="${layout.top - 11}" text-anchor="middle"`;
    out.push(`<text ${at} dominant-baseline="central" font-size="12" fill="${cssColor("--muted")}">` +
      `${escapeMarkup(text)}</text>`);
  });
  return out;
}

function svgLabels(layout) {
  const out = ["key", "query"].flatMap((side) => (axisTicks(side) ? svgTicks(layout, side) : []));
  const cell = layout.width / layout.keys;
  const high = layout.height / layout.rows;
  const size = { key: labelSize(cell), query: labelSize(high) };
  const color = (token) => cssColor(token.special ? "--muted" : "--ink");
  for (let k = 0; !axisTicks("key") && k < layout.keys; k += labelStep(layout.slanted ? cell * 1.3 : cell)) {
    const token = part().keyTexts[k];
    measuring.font = `${size.key}px ${FONT}`;
    const x = layout.left + (k + 0.5) * cell + (layout.slanted ? -2 : 0);
    out.push(`<text transform="translate(${x.toFixed(1)} ${layout.top - 6}) rotate(${layout.slanted ? -50 : -90})" ` +
      `dominant-baseline="central" font-size="${size.key}" fill="${color(token)}">` +
      `${escapeMarkup(shortLabel(measuring, token.text, layout.longest))}</text>`);
  }
  for (let q = 0; !axisTicks("query") && q < layout.rows; q += labelStep(high)) {
    const token = part().queryTexts[q];
    measuring.font = `${size.query}px ${FONT}`;
    out.push(`<text x="${layout.left - 7}" y="${(layout.top + (q + 0.5) * high).toFixed(1)}" text-anchor="end" ` +
      `dominant-baseline="central" font-size="${size.query}" fill="${color(token)}">` +
      `${escapeMarkup(shortLabel(measuring, token.text, layout.left - 8))}</text>`);
  }
  return out.join("\n");
}

function svgCells(matrix, layout) {
  if (matrix.rows * matrix.keys > MOST_RECTANGLES) {
    const canvas = document.createElement("canvas");
    canvas.width = matrix.keys;
    canvas.height = matrix.rows;
    const context = canvas.getContext("2d");
    const image = context.createImageData(canvas.width, canvas.height);
    paintMatrix(image, matrix, { x: 0, y: 0, width: matrix.keys, height: matrix.rows });
    context.putImageData(image, 0, 0);
    return `<image x="${layout.left}" y="${layout.top}" width="${layout.width}" height="${layout.height}" ` +
      `preserveAspectRatio="none" style="image-rendering:pixelated" href="${canvas.toDataURL("image/png")}"/>`;
  }
  const out = [`<rect x="${layout.left}" y="${layout.top}" width="${layout.width}" height="${layout.height}" ` +
    `fill="${paletteCss[0]}"/>`];
  const cell = layout.width / layout.keys;
  const high = layout.height / layout.rows;
  const gap = Math.min(cell, high) >= 9 ? 1 : 0;
  for (let q = 0; q < matrix.rows; ++q) {
    for (let k = 0; k < matrix.keys; ++k) {
      const shade = shadeAt(matrix, q, k);
      if (shade < 8) continue; // the ground's own colour
      out.push(`<rect x="${(layout.left + k * cell).toFixed(2)}" y="${(layout.top + q * high).toFixed(2)}" ` +
        `width="${(cell - gap).toFixed(2)}" height="${(high - gap).toFixed(2)}" fill="${paletteCss[shade]}"/>`);
    }
  }
  return out.join("\n");
}

function exportSvg() {
  const picture = pictures();
  const heading = `y="${8 - picture.title / 2}" font-weight="600" font-size="15" fill="${cssColor("--ink")}"`;
  const bodies = picture.maps.map((map) => `<g transform="translate(${map.x} ${map.y})">
<text ${heading}>${escapeMarkup(map.name)}</text>
${picture.medium ? svgMedium(picture.medium, map.matrix) : ""}
<g transform="translate(0 ${picture.above})">
${svgCells(map.matrix, picture.layout)}
${svgLabels(picture.layout)}
</g>
</g>`);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${picture.width}" height="${picture.height}" ` +
    `viewBox="0 0 ${picture.width} ${picture.height}" font-family="${escapeMarkup(FONT)}" font-size="${LABEL_SIZE}">
<title>${escapeMarkup(record.source)}</title>
<rect width="100%" height="100%" fill="${cssColor("--panel")}"/>
${bodies.join("\n")}
</svg>
`;
}

function numbersOf(matrix) {
  const rows = [];
  for (let q = 0; q < matrix.rows; ++q) {
    const row = [];
    for (let k = 0; k < matrix.keys; ++k) row.push(Number(weightAt(matrix, q, k).toPrecision(4)));
    rows.push(row);
  }
  return rows;
}

// Every head of the part, or of the layer on show where the part is too large for one file.
async function exportJson() {
  const { name, queries, keys, layers, heads } = part();
  const index = state.part;
  const few = layers * heads * queries.length * keys.length <= MOST_NUMBERS;
  const wanted = few ? Array.from({ length: layers }, (_, layer) => layer) : [state.view.layer];
  const views = wanted.map((layer) => viewsOfLayer(layer).filter((view) => view.kind === "head"));
  await Promise.all(wanted.map((layer) => load(index, String(layer))));
  return JSON.stringify({
    source: record.source, target: record.target, language: record.language, part: name, queries, keys,
    layers: wanted.map((layer, i) => ({ layer, heads: views[i].map((view) => numbersOf(matrixOf(index, view))) })),
  });
}

document.getElementById("save-svg").addEventListener("click", () => {
  save(fileName("svg"), exportSvg(), "image/svg+xml");
});
document.getElementById("save-png").addEventListener("click", savePng);
document.getElementById("save-json").addEventListener("click", () => {
  const name = `attention-${plainName(part().name)}.json`;
  exportJson().then((json) => save(name, json, "application/json"), showFailure);
});
