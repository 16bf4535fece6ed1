// Putting the page together: choices, keys, themes, and what to draw anew after which change.
function partName(one) {
  return STRINGS[language][one.name] && typeof STRINGS[language][one.name] === "string" ? say(one.name) : one.name;
}

// Fills a fieldset with radio buttons; [value, text] pairs.
function renderChoice(id, options, chosen, choose) {
  const box = document.getElementById(id);
  box.replaceChildren(make("legend", {}, say(box.dataset.label)));
  for (const [value, text] of options) {
    const input = make("input", { type: "radio", name: id, value: String(value), checked: value === chosen,
      onchange: () => choose(value) });
    box.append(make("label", {}, input, make("span", {}, text)));
  }
}

function renderChoices() {
  renderChoice("parts", record.parts.map((one, i) => [i, partName(one)]), state.part, choosePart);
  document.getElementById("parts").hidden = record.parts.length === 1; // a choice of one is none
  renderChoice("directions", [[false, say("looksAt")], [true, say("lookedAtBy")]], state.reverse, (reverse) => {
    state.reverse = reverse;
    if (state.pin) state.pin = { side: reverse ? "key" : "query", index: state.pin.index };
    requestActive();
    writeAddress();
  });
  const layers = Array.from({ length: part().layers }, (_, layer) => [layer, String(layer + 1)]);
  renderChoice("layers", [...layers, ["all", say("everyLayer")]], state.layer, chooseLayer);
  renderChoice("scales", [["even", say("even")], ["row", say("row")]], state.scale, (scale) => {
    state.scale = scale;
    redrawAll();
  });
}

// ---- what follows a change, from the widest to the narrowest ----
function renderPart() {
  zoom.factor = 1;
  renderChoices();
  renderSentences();
  renderStages();
  renderStrip();
  renderLayer();
}

function renderLayer() {
  for (const input of document.querySelectorAll("#layers input")) input.checked = input.value === String(state.layer);
  renderTiles();
  renderView();
}

function renderView() {
  renderChosenTiles();
  renderMaps();
  drawStrip(matrixOf(state.part, state.view));
  renderActive();
  writeAddress();
  const wanted = [state.view, state.compared].filter((view) => view && !matrixOf(state.part, view));
  if (wanted.length === 0) return;
  const index = state.part;
  Promise.all(wanted.map((view) => load(index, blockName(view)))).then(() => {
    if (index !== state.part) return;
    renderMaps();
    drawStrip(matrixOf(state.part, state.view));
    renderActive();
    showPinned();
  }, showFailure);
}

function renderActive() {
  renderActiveWords(matrixOf(state.part, state.view));
  renderActiveTiles();
  for (const map of mapViews) if (!map.element.hidden) map.drawActive();
}

function redrawAll() {
  readPalette();
  for (const line of lines) line.shades.fill(-2);
  redrawTiles();
  renderMaps();
  drawStrip(matrixOf(state.part, state.view));
  renderLegend();
  renderActive();
}

function renderLegend() {
  const ramp = make("span", { class: "ramp" });
  ramp.style.background = `linear-gradient(to right, ${[0, 64, 128, 191, 255].map((i) => paletteCss[i]).join(",")})`;
  const legend = document.getElementById("legend");
  legend.replaceChildren(say("weak"), ramp, say("strong"));
  if (!record.media.some((medium) => medium.grid && medium.kind !== "sound")) return;
  const heat = make("span", { class: "ramp" });
  heat.style.background = `linear-gradient(to right, ${heatCss()})`;
  ramp.after(heat);
}

function showFailure(error) {
  readout.textContent = say("failed");
  console.error(error);
}

// ---- language and theme ----
const themes = ["auto", "light", "dark"];
function renderTools() {
  const languageButton = document.getElementById("language");
  languageButton.textContent = say("other");
  languageButton.setAttribute("aria-label", say("otherLabel"));
  languageButton.lang = language === "zh" ? "en" : "zh-CN";
  const theme = document.getElementById("theme");
  theme.textContent = say(`theme${state.theme[0].toUpperCase()}${state.theme.slice(1)}`);
}

document.getElementById("language").addEventListener("click", () => {
  language = language === "zh" ? "en" : "zh";
  nameTokens();
  translatePage();
  renderTools();
  renderPart();
  renderLegend();
});
document.getElementById("theme").addEventListener("click", () => {
  state.theme = themes[(themes.indexOf(state.theme) + 1) % themes.length];
  document.documentElement.dataset.theme = state.theme;
  renderTools();
  redrawAll();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);

document.getElementById("zoom-in").addEventListener("click", () => zoomBy(1.6));
document.getElementById("zoom-out").addEventListener("click", () => zoomBy(1 / 1.6));
document.getElementById("zoom-all").addEventListener("click", () => zoomBy(0));

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Escape") letGo();
  else if (event.key === "[" || event.key === "]") {
    const layer = state.layer === "all" ? state.view.layer : state.layer;
    chooseLayer(Math.max(0, Math.min(part().layers - 1, layer + (event.key === "]" ? 1 : -1))));
  } else if (/^\d$/.test(event.key)) {
    const { layer } = state.view;
    const head = Number(event.key) - 1;
    if (head < 0) chooseView({ kind: "mean", layer, head: 0 });
    else if (head < part().heads) chooseView({ kind: "head", layer, head });
  } else if (event.key === "+" || event.key === "=") zoomBy(1.6);
  else if (event.key === "-") zoomBy(1 / 1.6);
  else return;
  event.preventDefault();
});

let lastWidth = 0;
new ResizeObserver(() => {
  if (maps.clientWidth === lastWidth) return;
  lastWidth = maps.clientWidth;
  fitStages();
  redrawTiles();
  renderMaps();
  renderActive();
}).observe(maps);

window.addEventListener("hashchange", () => {
  state.pin = state.hover = state.compared = null;
  readAddress();
  renderPart();
});

nameTokens();
readAddress();
if (record.parts.some((one) => one.keys.length > MANY_WORDS) || record.media.length > 0) state.scale = "row";
readPalette();
translatePage();
renderTools();
renderPart();
renderLegend();
document.documentElement.dataset.ready = "true";
