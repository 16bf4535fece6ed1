// The strip: for every word the picture as that word sees it, side by side.
const strip = document.getElementById("strip");
const MOST_IN_STRIP = 24;
const STRIP_WIDTH = 96;
let stripTiles = []; // {index, canvas, element}; the first one is the picture as it is, without an index

// One tile for each word over a picture; other parts have none.
function renderStrip() {
  stripTiles = [];
  const medium = gridOf("key");
  const wanted = medium && medium.kind === "picture" && mediumOf(part(), "query") === null;
  if (wanted) {
    const canvas = make("canvas", {});
    stripTiles.push({ index: null, canvas, element: make("span", { class: "strip-tile muted" }, canvas,
      make("bdi", {}, say("picture"))) });
    texts("query").forEach((word, index) => {
      if (word.special || stripTiles.length > MOST_IN_STRIP) return;
      const canvas = make("canvas", {});
      const element = make("button", { type: "button", class: "strip-tile", tabindex: -1 }, canvas,
        make("bdi", {}, word.text));
      stripTiles.push({ index, canvas, element });
    });
  }
  strip.replaceChildren(...stripTiles.map((tile) => tile.element));
  strip.hidden = stripTiles.length < 3; // one word is the large picture
}

// Draws every word's light in the chosen view.
function drawStrip(matrix) {
  if (strip.hidden || !matrix) return;
  const medium = gridOf("key");
  const layout = { perLine: 1, gap: 0, bar: 0, width: STRIP_WIDTH, height: STRIP_WIDTH * aspectOf(medium) };
  for (const { index, canvas } of stripTiles) {
    fitCanvas(canvas, layout.width, layout.height);
    const context = canvas.getContext("2d");
    const ratio = canvas.width / layout.width;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    paintFrames(context, medium, layout, index === null ? null : lightOf(matrix, { side: "query", index }));
  }
}

function markStrip() {
  const word = active();
  for (const { index, element } of stripTiles) {
    element.classList.toggle("active", index !== null && word?.side === "query" && word.index === index);
  }
}

const stripWord = (event) => {
  const tile = stripTiles.find(({ element }) => element.contains(event.target));
  return tile && tile.index !== null ? { side: "query", index: tile.index } : null;
};
strip.addEventListener("pointerover", (event) => {
  if (event.pointerType === "mouse") setHover(stripWord(event));
});
strip.addEventListener("pointerleave", () => setHover(null));
strip.addEventListener("click", (event) => {
  const word = stripWord(event);
  if (word) togglePin(word.side, word.index);
});
