// Transcripts as files, from segments: lists of { word, display, conf, start, end }, seconds.
import { cues } from "./cues.js";

const text = (words) => words.map(({ word }) => word).join(" ");

// Words as people read them, with capitals and punctuation; a number in figures is one word.
export function shown(words) {
  const found = [];
  for (const { display, ...word } of words) {
    const last = found.at(-1);
    if (display === "" && last) Object.assign(last, { end: word.end, conf: Math.min(last.conf, word.conf) });
    else found.push({ ...word, word: display ?? word.word });
  }
  return found;
}

const read = (words) => text(shown(words));

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
    text: segments.map(text).join(" "),
    display: segments.map(read).join(" "),
    segments: segments.map((words) => ({ start: words[0].start, end: words.at(-1).end, text: text(words) })),
    words: segments.flat().map(({ word, conf, ...rest }) => ({ text: word, ...rest, confidence: conf })),
  }, null, 1) + "\n",
};
