// What is chosen. A view is {kind: "head" | "mean" | "meanAll" | "rollout", layer, head}; an active word is
// {side: "query" | "key", index, other}, where `other` is the cell's token on the other side, if a cell is meant.
const state = {
  part: 0,
  layer: 0, // or "all"
  view: { kind: "head", layer: 0, head: 0 },
  compared: null, // a second view
  hover: null,
  pin: null,
  scale: "even",
  reverse: false, // where both sides are the same sentence: show who looks at the word
  theme: "auto",
};

const part = () => record.parts[state.part];
const active = () => state.hover ?? state.pin;
const texts = (side) => (side === "query" ? part().queryTexts : part().keyTexts);
const otherSide = (side) => (side === "query" ? "key" : "query");
const sameView = (a, b) => a && b && a.kind === b.kind && a.layer === b.layer && a.head === b.head;

function viewName(view) {
  if (view.kind === "meanAll" || view.kind === "rollout") return say(view.kind);
  const head = view.kind === "mean" ? say("mean") : say("headNumber", view.head + 1);
  return `${say("layerNumber", view.layer + 1)} · ${head}`;
}

// Views of the layer on show: the mean, the heads; or of every layer.
function viewsOfLayer(layer) {
  const views = [{ kind: "mean", layer, head: 0 }];
  for (let head = 0; head < part().heads; ++head) views.push({ kind: "head", layer, head });
  return views;
}

function choosePart(index) {
  const last = part();
  state.part = index;
  state.hover = state.pin = state.compared = null;
  const fits = (view) => view.layer < part().layers && view.head < part().heads;
  if (last.layers !== part().layers || !fits(state.view) || (state.view.kind === "rollout" && !hasRollout(index))) {
    state.layer = state.layer === "all" ? "all" : Math.min(state.layer, part().layers - 1);
    state.view = { kind: "head", layer: state.layer === "all" ? 0 : state.layer, head: 0 };
  }
  renderPart();
}

function chooseLayer(layer) {
  state.layer = layer;
  const ofLayer = state.view.kind === "head" || state.view.kind === "mean";
  if (layer !== "all" && ofLayer) state.view = { ...state.view, layer };
  renderLayer();
}

function chooseView(view) {
  state.view = view;
  if (sameView(state.compared, view)) state.compared = null;
  renderView();
}

function compareWith(view) {
  state.compared = sameView(view, state.compared) || sameView(view, state.view) ? null : view;
  renderView();
}

function setHover(word) {
  const now = state.hover;
  if (now === word || (now && word && now.side === word.side && now.index === word.index && now.other === word.other)) {
    return;
  }
  state.hover = word;
  requestActive();
}

function togglePin(side, index) {
  const same = state.pin && state.pin.side === side && state.pin.index === index;
  state.pin = same ? null : { side, index };
  if (same) state.hover = null;
  requestActive();
  showPinned();
  writeAddress();
}

// Escape lets go of the word first, then of the comparison.
function letGo() {
  if (active()) state.hover = state.pin = null;
  else if (state.compared) {
    state.compared = null;
    renderView();
  }
  requestActive();
  writeAddress();
}

// A function that draws in the next frame, once however often it is called before.
function oncePerFrame(draw) {
  let requested = false;
  return () => {
    if (requested) return;
    requested = true;
    requestAnimationFrame(() => {
      requested = false;
      draw();
    });
  };
}

const requestActive = oncePerFrame(() => renderActive());

// The choice as the page's address: #part=encoder&layer=4&head=3&word=9.
function writeAddress() {
  const { view } = state;
  const values = new URLSearchParams({ part: part().name });
  values.set("layer", state.layer === "all" ? "all" : String(state.layer + 1));
  values.set("head", view.kind === "head" ? String(view.head + 1) : view.kind);
  if (state.pin) values.set(state.pin.side === "query" ? "word" : "key", String(state.pin.index + 1));
  try {
    history.replaceState(null, "", `#${values}`);
  } catch {
    // Pages inside other pages may have no address of their own; the choice then is not kept.
  }
}

// Takes the choice from the address; a word may be given by its number or as text.
function readAddress() {
  const values = new URLSearchParams(location.hash.slice(1));
  const named = record.parts.findIndex((one) => one.name === values.get("part"));
  const first = record.media.length > 0 ? record.parts.findIndex((one) => one.name === "cross") : 0; // the words' own
  state.part = named >= 0 ? named : Math.max(0, first);
  const clamp = (text, count) => Math.min(Math.max(1, parseInt(text, 10) || 1), count) - 1;
  const layer = values.get("layer");
  state.layer = layer === "all" ? "all" : clamp(layer ?? part().layers, part().layers);
  const head = values.get("head");
  const summaries = hasRollout(state.part) ? ["mean", "meanAll", "rollout"] : ["mean", "meanAll"];
  const otherwise = head === null && hasMedia() ? "mean" : "head";
  const kind = summaries.includes(head) ? head : otherwise;
  state.view = {
    kind,
    layer: state.layer === "all" ? part().layers - 1 : state.layer,
    head: kind === "head" ? clamp(head, part().heads) : 0,
  };
  for (const [name, side] of [["word", "query"], ["key", "key"]]) {
    const word = values.get(name);
    if (!word) continue;
    const index = /^\d+$/.test(word) ? parseInt(word, 10) - 1 : findWord(texts(side), word);
    if (index >= 0 && index < texts(side).length) state.pin = { side, index };
  }
  if (hasMedia() && location.hash === "") pinFirst();
}

const hasMedia = () => mediumOf(part(), "query") !== null || mediumOf(part(), "key") !== null;

// A page over a picture or a sound opens with something lit: its first word, its class token, its last item.
function pinFirst() {
  const medium = mediumOf(part(), "query");
  const words = texts("query");
  if (!medium) state.pin = { side: "query", index: Math.max(0, words.findIndex((word) => !word.special)) };
  else if (medium.kind === "list") state.pin = { side: "query", index: words.length - 1 };
  else if (medium.first > 0) state.pin = { side: "query", index: 0 };
}
