// Transcripts as files, from utterances: lists of { word, conf, start, end }, seconds.
const text = (words) => words.map(({ word }) => word).join(" ");

const clock = (seconds) => new Date(Math.round(1000 * seconds)).toISOString().slice(11, 23).replace(".", ",");

export const written = {
  txt: (utterances) => utterances.map((words) => text(words) + "\n").join(""),
  srt: (utterances) => utterances.map((words, number) =>
    `${number + 1}\n${clock(words[0].start)} --> ${clock(words.at(-1).end)}\n${text(words)}\n\n`).join(""),
  json: (utterances) => JSON.stringify({
    text: utterances.map(text).join(" "),
    segments: utterances.map((words) => ({ start: words[0].start, end: words.at(-1).end, text: text(words) })),
    words: utterances.flat().map(({ word, conf, start, end }) => ({ text: word, start, end, confidence: conf })),
  }, null, 1) + "\n",
};
