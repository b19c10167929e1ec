// The text and its translation, word by word: doubtful words, alignment, and one tab stop with arrow keys.
//
// The source is shown once, by the textarea. Behind it lies a mirror, a layer with the same text in transparent
// letters, whose marks show through: they are highlights of ranges, which change no element, so that a long text is not
// laid out again. Text from the server is only ever text, never markup.

import { formatNumber, t } from "./interface.js";

const LOW = 0.3; // probabilities below which a word is marked
const MIDDLE = 0.6;
// the server counts words as Python's str.split does
const WORD = /[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/gu;

const text = document.getElementById("text");
const mirror = document.getElementById("mirror");
const translation = document.getElementById("translation");

let sentences = []; // as the server sends them
let elements = []; // of each sentence of the translation: {key, element, words}
let isMirrored = false; // whether the mirror has an element for each sentence
let tabStop = null;

const wordsOf = (string) => [...string.matchAll(WORD)].map(({ index, 0: word }) => ({ start: index, end: index + word.length }));

// Give the mirror the text alone: the textarea is as high as the mirror.
export function mirrorText() {
  isMirrored = false;
  mirror.replaceChildren(`${text.value}\u200b`);
}

// Show the sentences of the text or of its beginning; elements of those that have not changed stay. Returns what has changed, as text.
export function showSentences(shown) {
  const focused = placeOf(document.activeElement);
  const known = new Map();
  for (const each of elements) known.has(each.key) ? known.get(each.key).push(each) : known.set(each.key, [each]);
  const changed = [];
  sentences = shown;
  elements = sentences.map((sentence, number) => {
    const space = /\S/.test(sentence.source) && number ? sentence.source.match(/^\s*/)[0] : "";
    const string = space + (sentence.target.trimStart() || sentence.target);
    const key = JSON.stringify([string, sentence.confidence, sentence.flags, sentence.dropped, sentence.invented]);
    const old = known.get(key)?.pop();
    if (!old) changed.push(string);
    return old ?? { key, ...makeSentence(string, sentence) };
  });
  translation.replaceChildren(...elements.map(({ element }) => element));
  mirror.replaceChildren(
    ...sentences.map(({ source }) => {
      const element = document.createElement("span");
      element.textContent = source;
      return element;
    }),
    `${text.value.slice(sentences.reduce((sum, { source }) => sum + source.length, 0))}\u200b`,
  );
  isMirrored = true;
  const words = focused ? (elements[focused.sentence]?.words ?? []) : [];
  const dropped = sentences.flatMap((sentence, number) => {
    const places = wordsOf(sentence.source);
    const found = sentence.dropped.map(([index]) => places[index]).filter(Boolean);
    return found.map((place) => rangeOf(mirror.children[number], place));
  });
  CSS.highlights?.set("dropped", new Highlight(...dropped));
  const word = words[Math.min(focused?.word ?? 0, words.length - 1)];
  setTabStop(word ?? elements.find((each) => each.words.length)?.words[0] ?? null);
  if (word) word.focus();
  return changed.join("");
}

function makeSentence(string, { confidence, flags, dropped, invented }) {
  const element = document.createElement("span");
  const known = flags.filter((flag) => FLAGS.includes(flag));
  if (known.length) {
    element.className = "flagged";
    const named = { dropped, invented };
    element.title = known.map((flag) => t(`flag_${flag}`, { words: (named[flag] ?? []).map(([, word]) => word).join(", ") })).join(" ");
  }
  let end = 0;
  const words = wordsOf(string).map((place, index) => {
    const word = document.createElement("span");
    word.className = "word";
    word.textContent = string.slice(place.start, place.end);
    word.tabIndex = -1;
    word.setAttribute("role", "button");
    word.setAttribute("aria-haspopup", "menu");
    const probability = confidence[index] ?? 1;
    if (probability < MIDDLE) {
      word.classList.add(probability < LOW ? "low" : "middle");
      word.title = t("probability", { share: formatNumber(Math.round(100 * probability)) });
    }
    if (invented.some(([number]) => number === index)) word.classList.add("invented");
    element.append(string.slice(end, place.start), word);
    end = place.end;
    return word;
  });
  element.append(string.slice(end));
  return { element, words };
}

const FLAGS = ["dropped", "invented", "limit", "missing", "numbers", "repetition", "short", "terms"]; // that people can do something about

// The numbers of the sentence and the word of an element of the translation; null of another element.
function placeOf(element) {
  if (!element?.classList.contains("word")) return null;
  const sentence = elements.findIndex((each) => each.element === element.parentElement);
  return sentence < 0 ? null : { sentence, word: elements[sentence].words.indexOf(element) };
}

function setTabStop(word) {
  if (tabStop) tabStop.tabIndex = -1;
  tabStop = word;
  if (word) word.tabIndex = 0;
}

// Mark a word of one side, its partners on the other one, and both sentences; nothing without a place.
function mark(side, place) {
  translation.querySelectorAll(".linked, .current").forEach((each) => each.classList.remove("linked", "current"));
  mirror.querySelectorAll(".current").forEach((each) => each.classList.remove("current"));
  CSS.highlights?.delete("linked");
  if (!place || !isMirrored) return;
  const { source, alignment } = sentences[place.sentence];
  const linked = [[], []]; // words of the source and of the translation
  linked[side].push(place.word);
  alignment.filter((pair) => pair[side] === place.word).forEach((pair) => linked[1 - side].push(pair[1 - side]));
  const { element, words } = elements[place.sentence];
  linked[1].forEach((index) => words[index]?.classList.add("linked"));
  const behind = mirror.children[place.sentence];
  if (sentences.length > 1) [element, behind].forEach((each) => each.classList.add("current"));
  const ranges = wordsOf(source).filter((_, index) => linked[0].includes(index)).map((word) => rangeOf(behind, word));
  CSS.highlights?.set("linked", new Highlight(...ranges));
}

function rangeOf(element, { start, end }) {
  const range = document.createRange();
  range.setStart(element.firstChild, start);
  range.setEnd(element.firstChild, end);
  return range;
}

// The place of the source word at a point of the screen, which the mirror knows and the textarea does not.
function sourcePlaceAt(x, y) {
  if (!isMirrored) return null;
  const under = document.elementsFromPoint(x, y).find((each) => each.parentElement === mirror);
  const sentence = [...mirror.children].indexOf(under);
  if (sentence < 0) return null;
  const word = wordsOf(sentences[sentence].source).findIndex((place) =>
    [...rangeOf(under, place).getClientRects()].some(
      (box) => box.left <= x && x <= box.right && box.top <= y && y <= box.bottom,
    ),
  );
  return word < 0 ? null : { sentence, word };
}

// The place of the source word that the text cursor is in.
function sourcePlaceAtCursor() {
  if (!isMirrored || text.selectionStart !== text.selectionEnd) return null;
  let offset = text.selectionStart;
  const sentence = sentences.findIndex(({ source }) => offset < source.length || (offset -= source.length) < 0);
  if (sentence < 0) return null;
  const word = wordsOf(sentences[sentence].source).findIndex(({ start, end }) => start <= offset && offset <= end);
  return word < 0 ? null : { sentence, word };
}

// The word that a key leads to from another one, as in a text; null of other keys.
function wordByKey(word, key) {
  const words = elements.flatMap((each) => each.words);
  const index = words.indexOf(word);
  const forward = getComputedStyle(translation).direction === "rtl" ? -1 : 1;
  const step = { ArrowRight: forward, ArrowLeft: -forward }[key];
  if (step) return words[index + step] ?? word;
  if (key === "Home") return words[0];
  if (key === "End") return words.at(-1);
  const down = { ArrowDown: 1, ArrowUp: -1 }[key];
  if (!down) return null;
  const box = word.getBoundingClientRect();
  let best = word;
  let line = null; // the top of the next line that has words
  let distance = Infinity;
  for (let i = index + down; i >= 0 && i < words.length; i += down) {
    const other = words[i].getBoundingClientRect();
    if ((other.top - box.top) * down < box.height / 2) continue;
    line ??= other.top;
    if (Math.abs(other.top - line) > box.height / 2) break;
    const sideways = Math.abs(other.left + other.width / 2 - box.left - box.width / 2);
    if (sideways < distance) [best, distance] = [words[i], sideways];
  }
  return best;
}

// Listen; `choose(word, place)` is called for a word that is clicked or entered.
export function listenToWords(choose) {
  const wordOf = (event) => event.target.closest?.(".word");
  // the mark of a word stays while the menu below it has the focus
  const markFocused = (element) => mark(1, element?.closest("#menu") ? placeOf(tabStop) : placeOf(element));
  translation.addEventListener("pointerover", (event) => mark(1, placeOf(wordOf(event))));
  translation.addEventListener("pointerleave", () => markFocused(document.activeElement));
  translation.addEventListener("focusin", (event) => {
    setTabStop(wordOf(event) ?? tabStop);
    mark(1, placeOf(wordOf(event)));
  });
  translation.addEventListener("focusout", (event) => markFocused(event.relatedTarget));
  translation.addEventListener("click", (event) => {
    const word = wordOf(event);
    if (word && getSelection().isCollapsed) choose(word, placeOf(word));
  });
  translation.addEventListener("keydown", (event) => {
    const word = wordOf(event);
    if (!word || event.ctrlKey || event.metaKey) return;
    const next = event.altKey ? null : wordByKey(word, event.key);
    if (next) next.focus();
    else if (["Enter", " "].includes(event.key)) choose(word, placeOf(word));
    else return;
    event.preventDefault();
  });
  text.addEventListener("pointermove", (event) => mark(0, sourcePlaceAt(event.clientX, event.clientY)));
  text.addEventListener("pointerleave", () => mark(0, null));
  text.addEventListener("blur", () => mark(0, null));
  document.addEventListener("selectionchange", () => {
    if (document.activeElement === text) mark(0, sourcePlaceAtCursor());
  });
}
