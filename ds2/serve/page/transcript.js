// Transcripts as files, from segments: lists of { word, display, conf, start, end }, seconds.
import { cues, space } from "./cues.js";

const text = (words) => words.map((word, place) => (place ? space(words[place - 1], word) : "") + word.word).join("");

// Words as people read them, with capitals and punctuation, and the space before each, also after the word `before`
// them; a number in figures is one word.
export function shown(words, before) {
  const found = [];
  for (const { display, ...word } of words) {
    const last = found.at(-1);
    if (display === "" && last) Object.assign(last, { end: word.end, conf: Math.min(last.conf, word.conf) });
    else found.push({ ...word, word: display ?? word.word, space: before ? space(before, word) : "" });
    before = word;
  }
  return found;
}

const read = (words) => shown(words).map(({ space, word }) => space + word).join("");

const clock = (seconds) => new Date(Math.round(1000 * seconds)).toISOString().slice(11, 23).replace(".", ",");

// What names of saved files begin with: the uploaded file, or when the live stream began, in the time of this place.
export function fileStem(file, begun) {
  const local = new Date(begun - 60000 * begun.getTimezoneOffset());
  return file.replace(/(?<=.)\.[^.]*$/, "") || `live_${local.toISOString().slice(0, 19).replace("T", "_").replaceAll(":", "-")}`;
}

export const written = {
  txt: (segments) => segments.map((words) => read(words) + "\n").join(""),
  srt: (segments) => cues(segments.flat()).map(({ start, end, text }, number) =>
    `${number + 1}\n${clock(start)} --> ${clock(end)}\n${text}\n\n`).join(""),
  json: (segments) => JSON.stringify({
    text: text(segments.flat()),
    display: read(segments.flat()),
    segments: segments.map((words) => ({ start: words[0].start, end: words.at(-1).end, text: text(words) })),
    words: segments.flat().map(({ word, conf, ...rest }) => ({ text: word, ...rest, confidence: conf })),
  }, null, 1) + "\n",
};
