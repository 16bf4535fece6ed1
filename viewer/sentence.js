// The sentences: words to point at, shaded by how strongly they are looked at.
const sentences = document.getElementById("sentences");
const readout = document.getElementById("readout");
let lines = []; // {sides, element, words, shades}
const MANY_WORDS = 160;
const WEAKEST = 40; // shades up to here leave a word as it is: some 2 % of the weight

// One sentence; `sides` are the sides that its words stand for.
function makeLine(label, tokens, sides) {
  const words = [];
  const items = ["query", "key"].some((side) => mediumOf(part(), side)?.kind === "list") ? " items" : "";
  const text = make("p", { class: `${tokens.length > MANY_WORDS ? "sentence long" : "sentence"}${items}`, dir: "auto",
    role: "group", "aria-label": label });
  tokens.forEach((token, i) => {
    if (i > 0 && (token.startsWord || token.special || tokens[i - 1].special)) text.append(" ");
    const word = make("span", { class: token.special ? "word special" : "word", role: "button",
      tabindex: i === 0 ? 0 : -1, "aria-pressed": "false", "data-index": i }, token.text);
    words.push(word);
    text.append(word);
  });
  const line = { sides, element: text, words, shades: new Int16Array(words.length).fill(-1), tab: 0, tokens };
  sentences.append(make("div", { class: "line" }, make("h3", {}, label), text));
  return line;
}

function renderSentences() {
  sentences.replaceChildren();
  const { name, queryTexts, keyTexts, same } = part();
  const output = record.language ? "target" : "output"; // a translation into a language, or any other text
  const own = record.parts.length === 1 ? "text" : name === "encoder" ? "source" : output;
  const labels = name === "decoder" ? ["written", "before"] : [output, "source"];
  lines = [];
  const add = (label, tokens, sides) => {
    const medium = mediumOf(part(), sides[0]);
    const shown = medium && medium.grid ? tokens.slice(0, medium.first) : tokens; // the others are in a stage
    if (shown.length > 0) lines.push(makeLine(say(medium?.grid ? "token" : medium?.kind ?? label), shown, sides));
  };
  if (same) add(own, queryTexts, ["query", "key"]);
  else {
    add(labels[0], queryTexts, ["query"]);
    add(labels[1], keyTexts, ["key"]);
  }
  document.getElementById("directions").hidden = !same;
}

const lineFor = (side) => lines.find((line) => line.sides.includes(side));
// The side that pointing at a line's word means.
const sideOf = (line) => (line.sides.length > 1 ? (state.reverse ? "key" : "query") : line.sides[0]);

function wordAt(target) {
  const word = target instanceof Element ? target.closest(".word") : null;
  const line = word && lines.find((one) => one.element === word.parentElement);
  return line ? { side: sideOf(line), index: Number(word.dataset.index) } : null;
}

sentences.addEventListener("pointerover", (event) => {
  if (event.pointerType === "mouse") setHover(wordAt(event.target));
});
sentences.addEventListener("pointerleave", () => setHover(null));
sentences.addEventListener("click", (event) => {
  const word = wordAt(event.target);
  if (!word) return;
  togglePin(word.side, word.index);
  focusWord(lines.find((line) => sideOf(line) === word.side), word.index);
});
sentences.addEventListener("focusin", (event) => {
  const word = wordAt(event.target);
  if (word && event.target.matches(":focus-visible")) setHover(word);
});
sentences.addEventListener("focusout", () => setHover(null));
sentences.addEventListener("keydown", (event) => {
  const word = wordAt(event.target);
  if (!word) return;
  const at = lines.findIndex((line) => sideOf(line) === word.side);
  const forward = getComputedStyle(lines[at].element).direction === "rtl" ? -1 : 1;
  const moves = { ArrowRight: forward, ArrowLeft: -forward, Home: -Infinity, End: Infinity };
  if (event.key in moves) focusWord(lines[at], word.index + moves[event.key]);
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const next = lines[at + (event.key === "ArrowDown" ? 1 : -1)];
    if (next) focusWord(next, word.index);
  } else if (event.key === "Enter" || event.key === " ") togglePin(word.side, word.index);
  else return;
  event.preventDefault();
});

// Moves the focus to a word, clamped to the line; Tab then comes back to it.
function focusWord(line, index) {
  const to = Math.max(0, Math.min(line.words.length - 1, index));
  line.words[line.tab].tabIndex = -1;
  line.tab = to;
  line.words[to].tabIndex = 0;
  line.words[to].focus();
}

// Shades are set where they change alone: a thousand words stay quick.
function shadeLine(line, shadeOfWord) {
  for (let i = 0; i < line.words.length; ++i) {
    const shade = shadeOfWord ? Math.max(WEAKEST, shadeOfWord(i) & ~7) : -1;
    if (line.shades[i] === shade) continue;
    line.shades[i] = shade;
    const { style } = line.words[i];
    style.backgroundColor = shade > WEAKEST ? paletteCss[shade] : "";
    style.color = shade > WEAKEST ? paletteInk[shade] : "";
  }
}

let marked = [];
function markWords(word) {
  for (const element of marked) {
    element.classList.remove("active", "pinned");
    element.setAttribute("aria-pressed", "false");
  }
  marked = [];
  const mark = (which, name) => {
    const element = which && lineFor(which.side)?.words[which.index];
    if (!element) return;
    element.classList.add(name);
    if (name === "pinned") element.setAttribute("aria-pressed", "true");
    marked.push(element);
  };
  mark(word, "active");
  mark(state.pin, "pinned");
}

// Shows where the active word looks, in the sentences and in words under them.
function renderActiveWords(matrix) {
  const word = active();
  markWords(word);
  const target = word && matrix ? lineFor(otherSide(word.side)) : null;
  for (const line of lines) {
    if (line !== target) shadeLine(line, null);
    else if (word.side === "query") shadeLine(line, (i) => shadeAt(matrix, word.index, i));
    else shadeLine(line, (i) => shadeAt(matrix, i, word.index));
  }
  renderActiveStages(matrix);
  renderReadout(word, matrix);
}

// Scrolls long sentences to the pinned word and to what is strongest for it; the page itself stays.
function showPinned() {
  const matrix = matrixOf(state.part, state.view);
  if (!state.pin || !matrix) return;
  const { side, index } = state.pin;
  const best = strongest(lineOf(matrix, side, index), 1)[0];
  const show = (line, at) => {
    if (!line) return;
    const { element, words } = line;
    if (at === undefined || !words[at] || element.scrollHeight <= element.clientHeight) return;
    const top = words[at].getBoundingClientRect().top - element.getBoundingClientRect().top;
    if (top < 0 || top > element.clientHeight - 24) element.scrollTop += top - element.clientHeight / 2;
  };
  if (lines.length > 1) show(lineFor(otherSide(side)), best);
  show(lineFor(side), index);
}

function renderReadout(word, matrix) {
  if (!word || !matrix) {
    readout.replaceChildren(make("span", { class: "muted" }, say(stages.length > 0 ? "hintMedia" : "hint")));
    return;
  }
  const line = lineOf(matrix, word.side, word.index);
  const other = otherSide(word.side);
  const shown = strongestEntries(line, other, 5);
  if (word.other !== undefined && !shown.some((entry) => entry.index === word.other)) {
    shown.push({ ...texts(other)[word.other], weight: line[word.other], index: word.other });
  }
  const children = [make("b", { dir: "auto" }, texts(word.side)[word.index].text), " ",
    make("span", { class: "muted" }, say(word.side === "query" ? "looksAt" : "lookedAtBy")), " "];
  // Places share the weight among so many that only comparing them says something.
  const full = stages.length > 0 && shown.length > 0 ? shown[0].weight : 1;
  for (const { text, weight, index, special } of shown) {
    const bar = make("i", { class: "bar-mark", "aria-hidden": true });
    bar.style.width = `${Math.round((weight / full) * 48)}px`;
    children.push(make("span", { class: index === word.other ? "entry meant" : "entry" },
      make("bdi", { class: special && "muted" }, text), " ", bar,
      make("span", { class: "number" }, percent(weight))));
  }
  readout.replaceChildren(...children);
}
