// What the page says, in English and Chinese.
const STRINGS = {
  en: {
    title: "What each head looks at",
    sentences: "Sentences",
    part: "Part of the model",
    encoder: "Encoder",
    decoder: "Decoder",
    cross: "Cross-attention",
    answer: "Answer",
    answers: "Answers",
    space: "Over space",
    time: "Over time",
    direction: "Direction",
    looksAt: "looks at",
    lookedAtBy: "is looked at by",
    layer: "Layer",
    layerNumber: (n) => `Layer ${n}`,
    everyLayer: "All",
    heads: "Heads",
    headNumber: (n) => `Head ${n}`,
    mean: "Mean of heads",
    meanAll: "Mean of all layers",
    averages: "Over all layers",
    meanShort: "Mean",
    meanAllShort: "All layers",
    rollout: "Rollout",
    scale: "Shading",
    even: "By weight",
    row: "By row",
    detail: "The chosen head",
    compare: "Compare",
    compareWith: (name) => `Compare with ${name}`,
    stopComparing: "Stop comparing",
    alike: (share) => `alike: ${share}`,
    zoomIn: "Zoom in",
    zoomOut: "Zoom out",
    zoomAll: "Whole",
    saveSvg: "Save the picture as SVG",
    savePng: "Save the picture as PNG",
    saveJson: "Save the numbers as JSON",
    text: "Text",
    source: "Source",
    target: "Translation",
    output: "Output",
    written: "Being written",
    before: "Written so far",
    hintMedia: "Point at a word or a place, or tap it, to see where it looks. Click to pin it.",
    picture: "Picture",
    sound: "Sound",
    video: "Frames",
    list: "Items",
    patch: (row, column) => `row ${row} column ${column}`,
    frame: (n) => `frame ${n}`,
    position: (n) => `position ${n}`,
    classToken: "class",
    token: "Token",
    rowTick: (n) => `row ${n}`,
    stage: (name) => `${name}: arrow keys move over the places, Enter pins one, Escape lets it go`,
    hint: "Point at a word, or tap it, to see where it looks. Click to pin it.",
    pinned: "pinned",
    themeAuto: "Theme: system",
    themeLight: "Theme: light",
    themeDark: "Theme: dark",
    other: "中文",
    otherLabel: "切换到中文",
    weak: "weak",
    strong: "strong",
    loading: "Unpacking…",
    failed: "This browser cannot unpack the weights; a newer one can.",
    map: (name) => `${name}: arrow keys move over the cells, Enter pins the word, Escape lets it go`,
    help: "Keyboard",
    keys: [
      ["← → ↑ ↓", "move between words, heads or cells"],
      ["Enter", "pin the word, choose the head"],
      ["Shift + Enter", "compare with the head"],
      ["Esc", "unpin the word, then end the comparison"],
      ["[ ]", "previous layer, next layer"],
      ["1 – 9, 0", "head 1 to 9, mean of the heads"],
      ["+ −", "zoom the large map"],
    ],
    about: "Made by Headway. Weights are kept in 8 bits of each row's largest; nothing is loaded from anywhere.",
  },
  zh: {
    title: "每个注意力头关注什么",
    sentences: "句子",
    part: "模型部分",
    encoder: "编码器",
    decoder: "解码器",
    cross: "交叉注意力",
    answer: "答案",
    answers: "答案",
    space: "空间上",
    time: "时间上",
    direction: "方向",
    looksAt: "关注",
    lookedAtBy: "被关注",
    layer: "层",
    layerNumber: (n) => `第 ${n} 层`,
    everyLayer: "全部",
    heads: "注意力头",
    headNumber: (n) => `头 ${n}`,
    mean: "各头平均",
    meanAll: "所有层平均",
    averages: "跨所有层",
    meanShort: "平均",
    meanAllShort: "所有层",
    rollout: "逐层展开",
    scale: "着色",
    even: "按权重",
    row: "按行",
    detail: "所选的注意力头",
    compare: "对比",
    compareWith: (name) => `与${name}对比`,
    stopComparing: "结束对比",
    alike: (share) => `相似度：${share}`,
    zoomIn: "放大",
    zoomOut: "缩小",
    zoomAll: "全图",
    saveSvg: "将图保存为 SVG",
    savePng: "将图保存为 PNG",
    saveJson: "将数值保存为 JSON",
    text: "文本",
    source: "原文",
    target: "译文",
    output: "输出",
    written: "正在写",
    before: "已写",
    hintMedia: "指向或轻触一个词或一个位置，查看它关注哪里；点击可固定。",
    picture: "图片",
    sound: "声音",
    video: "视频帧",
    list: "物品",
    patch: (row, column) => `第 ${row} 行第 ${column} 列`,
    frame: (n) => `第 ${n} 帧`,
    position: (n) => `位置 ${n}`,
    classToken: "类别词元",
    token: "词元",
    rowTick: (n) => `第 ${n} 行`,
    stage: (name) => `${name}：方向键移动，回车固定，Esc 取消`,
    hint: "指向或轻触一个词，查看它关注哪些词；点击可固定。",
    pinned: "已固定",
    themeAuto: "主题：跟随系统",
    themeLight: "主题：浅色",
    themeDark: "主题：深色",
    other: "English",
    otherLabel: "Switch to English",
    weak: "弱",
    strong: "强",
    loading: "正在解压…",
    failed: "此浏览器无法解压权重，请使用较新的浏览器。",
    map: (name) => `${name}：方向键移动，回车固定词，Esc 取消`,
    help: "键盘",
    keys: [
      ["← → ↑ ↓", "在词、头或格子之间移动"],
      ["Enter", "固定词，选择头"],
      ["Shift + Enter", "与该头对比"],
      ["Esc", "取消固定，再取消对比"],
      ["[ ]", "上一层，下一层"],
      ["1 – 9, 0", "头 1 到 9，各头平均"],
      ["+ −", "缩放大图"],
    ],
    about: "由 Headway 生成。权重以每行最大值的 8 位精度保存；页面自包含，不从外部加载内容。",
  },
};

let language = (navigator.language || "en").toLowerCase().startsWith("zh") ? "zh" : "en";

// A string of the page in the chosen language, or what a function there makes of the arguments.
function say(key, ...values) {
  const text = STRINGS[language][key];
  return typeof text === "function" ? text(...values) : text === undefined ? key : text;
}

// Fills every element that names its text (data-text) or its label (data-label).
function translatePage() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = say(element.dataset.text);
  for (const element of document.querySelectorAll("[data-label]")) {
    element.setAttribute("aria-label", say(element.dataset.label));
    if (element.tagName === "BUTTON") element.title = say(element.dataset.label);
  }
  const keys = document.getElementById("keys");
  keys.replaceChildren();
  for (const [key, meaning] of say("keys")) {
    keys.append(make("dt", {}, key), make("dd", {}, meaning));
  }
}

// An element with properties (class, attributes, on... handlers) and children.
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

function percent(weight) {
  const share = weight * 100;
  return `${share >= 9.95 ? share.toFixed(0) : share.toFixed(1)} %`;
}
