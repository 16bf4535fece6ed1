// A sound: curves of weights above its spectrogram, and seconds under it.
const CURVE_HEIGHT = 74;
const SPECTROGRAM_HEIGHT = 120;
const AXIS_HEIGHT = 22;
const MOST_CURVES = 24;

function soundLayout(medium, width) {
  const names = 40; // two lines of names
  const top = names + CURVE_HEIGHT;
  return { sound: true, total: width, names, top, width, left: 0,
    totalHeight: top + SPECTROGRAM_HEIGHT + (medium.seconds > 0 ? AXIS_HEIGHT : 4) };
}

const soundX = (medium, layout, column) => (layout.width * column) / medium.columns;

// Round seconds along the axis: [{column, text}].
function timeTicks(medium, most) {
  const total = medium.seconds * medium.columns;
  if (!(total > 0)) return [];
  let step = 10 ** Math.floor(Math.log10(total / 4));
  for (const factor of [2, 2.5, 2]) if (total / step > most) step *= factor;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const ticks = [];
  for (let i = 0; i * step <= total * 1.0001; ++i) {
    ticks.push({ column: (i * step) / medium.seconds, text: `${(i * step).toFixed(digits)}${i === 0 ? " s" : ""}` });
  }
  return ticks;
}

function paintTime(context, medium, layout) {
  const y = layout.top + SPECTROGRAM_HEIGHT;
  context.font = `12px ${FONT}`;
  context.fillStyle = context.strokeStyle = cssColor("--muted");
  context.textBaseline = "top";
  context.lineWidth = 1;
  for (const { column, text } of timeTicks(medium, layout.width > 500 ? 10 : 6)) {
    const x = soundX(medium, layout, column);
    const half = context.measureText(text).width / 2;
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x, y + 5);
    context.stroke();
    context.textAlign = "center";
    context.fillText(text, Math.min(layout.width - half, Math.max(half, x)), y + 7);
  }
}

// One row's curve, its strongest place at the top.
function paintCurve(context, medium, layout, line, ink, strength) {
  let most = 0;
  for (let i = medium.first; i < line.length; ++i) most = Math.max(most, line[i]);
  if (most === 0) return;
  const y = (i) => layout.top - ((CURVE_HEIGHT - 4) * line[medium.first + i]) / most;
  context.beginPath();
  context.moveTo(0, layout.top);
  for (let i = 0; i < medium.columns; ++i) context.lineTo(soundX(medium, layout, i + 0.5), y(i));
  context.lineTo(layout.width, layout.top);
  context.fillStyle = context.strokeStyle = ink;
  context.globalAlpha = 0.22 * strength;
  context.fill();
  context.globalAlpha = strength;
  context.lineWidth = 1.7;
  context.lineJoin = "round";
  context.stroke();
  context.globalAlpha = 1;
}

// The words of the other side above the places that they look at most, without those that would not find room.
function paintCurves(context, medium, layout, matrix, word) {
  const others = texts("query");
  const names = [];
  for (let row = 0; row < others.length; ++row) {
    const line = lineOf(matrix, "query", row);
    const chosen = word && word.side === "query" && word.index === row;
    if (others[row].special && !chosen) continue;
    const ink = cssColor(INKS[names.length % INKS.length]);
    paintCurve(context, medium, layout, line, ink, !word || chosen ? 1 : 0.25);
    const best = strongest(line.subarray(medium.first), 1)[0] ?? 0;
    names.push({ text: others[row].text, x: soundX(medium, layout, best + 0.5), ink, chosen });
  }
  paintNames(context, layout, names, Boolean(word));
}

function paintNames(context, layout, names, dimmed) {
  const ends = [-Infinity, -Infinity];
  context.textBaseline = "alphabetic";
  context.textAlign = "center";
  for (const name of names.sort((a, b) => Number(b.chosen) - Number(a.chosen) || a.x - b.x)) {
    context.font = `${name.chosen ? "600 " : ""}17px ${cssColor("--serif")}`;
    const half = context.measureText(name.text).width / 2;
    const x = Math.min(layout.width - half, Math.max(half, name.x));
    const level = ends.findIndex((end) => end < x - half);
    if (level < 0) continue;
    ends[level] = x + half + 6;
    context.fillStyle = name.ink;
    context.globalAlpha = dimmed && !name.chosen ? 0.4 : 1;
    context.fillText(name.text, x, layout.names - 6 - 18 * level);
    context.globalAlpha = 1;
  }
}

// Paints a sound; `shown` is {matrix, word, light, own}: what is active, its light and its own position.
function paintSound(context, medium, layout, { matrix, word, light, own }) {
  const box = { x: 0, y: layout.top, width: layout.width, height: SPECTROGRAM_HEIGHT };
  if (medium.image) {
    context.imageSmoothingEnabled = true;
    context.drawImage(medium.image, box.x, box.y, box.width, box.height);
  } else {
    context.fillStyle = cssColor("--scale-1");
    context.fillRect(box.x, box.y, box.width, box.height);
  }
  if (light) paintLight(context, smoothLight(medium, light), 0, box, veilPixels);
  const few = matrix && mediumOf(part(), "query") === null && texts("query").length <= MOST_CURVES;
  if (few) paintCurves(context, medium, layout, matrix, word);
  else if (light) paintCurve(context, medium, layout, light, cssColor("--accent"), 1);
  paintTime(context, medium, layout);
  const place = own === undefined ? null : placeOf(medium, own);
  if (place) {
    const width = Math.max(2, layout.width / medium.columns);
    context.strokeStyle = cssColor("--ink");
    context.lineWidth = 1.5;
    context.strokeRect(soundX(medium, layout, place.column), layout.names, width, layout.totalHeight - layout.names -
      AXIS_HEIGHT);
  }
}
