// Cues of subtitles, as ds2/recognition/cues.py makes them: the same rules, costs and dynamic program.
// Words are { word, display, start, end }, seconds; a cue is { start, end, text }, its text one line or two.
export const COLUMNS = 42; // of a line
export const LONGEST = 7; // seconds that the words of a cue may take
const LEAST = 1; // seconds that a cue stays, unless the next one begins
const SPEED = 17; // characters a second: at ease
const FASTEST = 20; // just so

const COST = {
  clause: 0.6, plain: 1.5, dangling: 5, // of breaks
  cue: 0.5, empty: 1, orphan: 3, fast: 1, // of a cue
  sentence: 1.2, pause: 3, imbalance: 3, // within a cue
};
const SHORT_PAUSE = 0.2; // seconds that cost nothing
const BETWEEN_SENTENCES = 1.2; // seconds of a pause in which a cue ends, after a sentence
const WITHIN_SENTENCE = 2; // or anywhere

const SENTENCE_END = /[.?!。？！]["'”’»)」]*$/;
const CLAUSE_END = /[,;:—，、；：]["'”’»)」]*$/;
export const TITLES = "mr mrs ms dr mister missus miss doctor saint".split(" ");
export const DANGLERS = [...TITLES, ...(
  "a an the my your his her its our their this these every no about above across after against along among around at " +
  "before behind below beneath beside between beyond by during for from in into near of on onto through to toward " +
  "towards under upon with within without and or nor but if as than that because while when where until unless " +
  "though although whether who which").split(" ")];

const IDEOGRAPH = /^[\u3400-\u9fff\u{20000}-\u{3ffff}]$/u;
const INVISIBLE = /\p{Mn}|\p{Me}|\p{Cf}/u;
const WIDE = /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;

// What stands between two words: characters follow each other without a space.
export const space = (before, after) => (IDEOGRAPH.test(before.word) && IDEOGRAPH.test(after.word) ? "" : " ");

// The cues of a recording of `duration` seconds, which may be unknown.
export function cues(words, duration = Infinity) {
  if (!words.length) return [];
  const layout = makeLayout(makeUnits(words), duration);
  return bestCues(layout).map(([first, past]) => makeCue(layout, first, past));
}

// Words and numbers in figures, with the space before each and the cost of a break after it.
function makeUnits(words) {
  const units = [];
  words.forEach(({ word, display, start, end }, place) => {
    const shown = display ?? word;
    if (!shown && units.length) return void (units.at(-1).end = end);
    units.push({ text: shown, space: place ? space(words[place - 1], { word }) : " ", start, end, cost: breakCost(word.toLowerCase(), shown) });
  });
  return units;
}

function breakCost(plain, shown) {
  if (TITLES.includes(plain)) return COST.dangling; // its full stop ends no sentence
  if (SENTENCE_END.test(shown)) return 0;
  if (CLAUSE_END.test(shown)) return COST.clause;
  return DANGLERS.includes(plain) ? COST.dangling : COST.plain;
}

function makeLayout(units, duration) {
  const layout = { units, starts: [...units.map(({ start }) => start), duration], lefts: [], rights: [], breaks: [], unbroken: [0], apart: [] };
  let right = 0;
  units.forEach(({ text, space, end, cost }, place) => {
    const own = columns(text);
    right += space.length + own;
    layout.rights.push(right);
    layout.lefts.push(right - own);
    layout.breaks.push(cost);
    if (place === units.length - 1) return;
    layout.apart.push(units[place + 1].start - end > (cost ? WITHIN_SENTENCE : BETWEEN_SENTENCES));
    const pause = Math.max(0, units[place + 1].start - end - SHORT_PAUSE);
    layout.unbroken.push(layout.unbroken[place] + COST.pause * pause + (cost ? 0 : COST.sentence));
    if (cost === COST.plain && pause) layout.breaks[place] = COST.clause;
  });
  layout.breaks[units.length - 1] = 0;
  return layout;
}

// least[n] = min over k < n of least[k] + the cost of a cue of the units k to n - 1
function bestCues(layout) {
  const least = [0], begins = [0];
  for (let past = 1; past <= layout.units.length; past++) {
    let best = [Infinity, past - 1];
    for (const first of candidates(layout, past)) {
      const cost = least[first] + cueCost(layout, first, past);
      if (cost <= best[0]) best = [cost, first];
    }
    least.push(best[0]);
    begins.push(best[1]);
  }
  const spans = [];
  for (let past = layout.units.length; past; past = begins[past]) spans.unshift([begins[past], past]);
  return spans;
}

function* candidates(layout, past) {
  yield past - 1;
  let second = past; // where the second line would begin at the earliest
  for (let first = past - 2; first >= 0; first--) {
    if (layout.apart[first]) return;
    if (fits(layout, first, past)) second = first;
    if (!fits(layout, first, second) || layout.units[past - 1].end - layout.starts[first] > LONGEST) return;
    yield first;
  }
}

const width = ({ lefts, rights }, first, past) => rights[past - 1] - lefts[first];
const fits = (layout, first, past) => first === past || width(layout, first, past) <= COLUMNS;

function cueCost(layout, first, past) {
  const { breaks, unbroken, starts } = layout;
  const filled = width(layout, first, past);
  let cost = COST.cue + COST.empty * (1 - filled / (2 * COLUMNS)) ** 2;
  cost += breaks[past - 1] + unbroken[past - 1] - unbroken[first];
  if (past - first === 1) cost += COST.orphan;
  const seconds = Math.max(0.01, starts[past] - starts[first]); // it can stay until the next one begins
  const speed = Math.max(filled, SPEED * LEAST) / seconds;
  cost += COST.fast * (Math.max(0, speed - SPEED) / (FASTEST - SPEED)) ** 4;
  return cost + lineBreak(layout, first, past)[0];
}

// The least cost of a break between lines, and the first unit of the second line; `past` without a break.
function lineBreak(layout, first, past) {
  if (past - first === 1 || fits(layout, first, past)) return [0, past];
  let best = [Infinity, past];
  for (let second = past - 1; second > first; second--) {
    const above = width(layout, first, second), below = width(layout, second, past);
    if (below > COLUMNS) break;
    const cost = layout.breaks[second - 1] / 2 + COST.imbalance * ((above - below) / COLUMNS) ** 2;
    if (above <= COLUMNS && cost <= best[0]) best = [cost, second];
  }
  return best;
}

// A cue stays long enough to be read, unless the next one begins.
function makeCue(layout, first, past) {
  const { units, starts } = layout;
  const second = lineBreak(layout, first, past)[1];
  const line = (from, to) => units.slice(from, to).map(({ space, text }) => space + text).join("").trimStart();
  const readable = starts[first] + Math.max(LEAST, width(layout, first, past) / SPEED);
  const end = Math.max(units[past - 1].end, Math.min(readable, starts[past]));
  return { start: starts[first], end, text: [line(first, second), line(second, past)].filter(Boolean).join("\n") };
}

// Columns that a text fills on a screen: East Asian characters fill two, marks upon the letter before none.
function columns(text) {
  return [...text].reduce((sum, character) => sum + (INVISIBLE.test(character) ? 0 : WIDE.test(character) ? 2 : 1), 0);
}
