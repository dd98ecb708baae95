// Uploads a recording to OpenAI's endpoint and passes on the words of each segment as the server recognises it.

// Returns { answer, stop }: `answer` becomes the server's error, or "" at the end; `stop` ends the upload.
// onSent(share of the file), onWords([{ word, start, end, confidence }]).
export function upload(file, fields, key, { onSent, onWords }) {
  const request = new XMLHttpRequest(); // fetch has no progress of what is sent
  const form = new FormData();
  for (const [name, value] of Object.entries({ ...fields, stream: "true", "timestamp_granularities[]": "word" })) {
    form.append(name, value);
  }
  form.append("file", file);
  let read = 0; // characters of the answer
  let error = "";

  const take = () => {
    if (request.status !== 200) return;
    // Events end with an empty line; the rest waits for more.
    for (let end; (end = request.responseText.indexOf("\n\n", read)) >= 0; read = end + 2) {
      const event = JSON.parse(request.responseText.slice(read + "data: ".length, end));
      if (event.type === "error") error = event.error.message;
      else if (event.words) onWords(event.words);
    }
  };
  const answer = new Promise((resolve) => {
    request.upload.onprogress = ({ loaded, total }) => onSent(loaded / total);
    request.onprogress = take;
    request.onload = () => {
      take();
      resolve(request.status === 200 ? error : sentence(request));
    };
    request.onerror = () => resolve("the server cannot be reached, or broke off");
    request.onabort = () => resolve("stopped");
  });
  request.open("POST", "v1/audio/transcriptions");
  if (key) request.setRequestHeader("authorization", `Bearer ${key}`);
  request.send(form);
  return { answer, stop: () => request.abort() };
}

function sentence({ status, responseText }) {
  try {
    return JSON.parse(responseText).error.message;
  } catch {
    return `the server answered ${status}`;
  }
}
