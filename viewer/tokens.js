// Tokens as words: SentencePiece's mark of a word's beginning becomes a space, special tokens are told apart.
const WORD_MARK = "\u2581";
const UNSAFE = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

// {text, startsWord, special} of a token, safe to show.
function tokenText(token) {
  const bare = token.replace(/^\u2581+/, "");
  const byte = /^<0x([0-9A-F]{2})>$/.exec(token);
  return {
    text: byte ? byte[1] : (bare === "" ? token : bare).replace(UNSAFE, "\ufffd"),
    startsWord: token.startsWith(WORD_MARK),
    special: byte !== null || /^(<[\w/|-]+>|>>[\w/|-]+<<|\[[A-Z0-9_]+\])$/.test(token),
  };
}

// All tokens of one axis; without any mark of a word's beginning, each token is a word.
function tokenTexts(tokens) {
  const texts = tokens.map(tokenText);
  if (!texts.some((token) => token.startsWord)) for (const token of texts) token.startsWord = true;
  return texts;
}

for (const part of record.parts) {
  part.same = part.queries.length === part.keys.length && part.queries.every((token, i) => token === part.keys[i]);
}

// The index of the token (or of the first piece) that spells a word, -1 where none does.
function findWord(texts, word) {
  const wanted = word.toLowerCase();
  const exact = texts.findIndex((token) => token.text === word && token.startsWord);
  if (exact >= 0) return exact;
  for (let i = 0; i < texts.length; ++i) {
    let joined = "";
    for (let j = i; j < texts.length && joined.length < word.length; ++j) {
      if (j > i && texts[j].startsWord) break;
      joined += texts[j].text;
      if (joined.toLowerCase() === wanted) return i;
    }
  }
  return -1;
}
