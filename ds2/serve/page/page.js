// Sends sound from the microphone live, or uploads a file; shows words as they come, and figures of the server.
import { fileStem, shown, written } from "./transcript.js";
import { upload } from "./upload.js";

const $ = (id) => document.getElementById(id);
const player = $("player");
let stopNow = null; // ends the current stream or upload
let playUntil = Infinity; // seconds: the end of the word that is played
let segments = []; // final ones: lists of { word, display, conf, start, end }
let stem = ""; // of the names of saved files

$("microphone").onclick = () => listen();
$("file").onchange = () => {
  const [file] = $("file").files;
  $("file").value = "";
  if (file) transcribe(file);
};
$("stop").onclick = () => stopNow?.();
$("copy").onclick = async () => {
  if (!navigator.clipboard) return state("browsers copy on https and localhost alone", true);
  await navigator.clipboard.writeText(written.txt(segments));
  state("copied");
};
$("final").onclick = ({ target }) => target.closest(".word") && play(target.closest(".word").dataset);
$("times").onchange = () => $("final").classList.toggle("times", $("times").checked);
$("model").onchange = () => ($("knows").textContent = $("model").selectedOptions[0]?.dataset.knows ?? "");
for (const button of document.querySelectorAll(".save")) button.onclick = () => save(button.dataset.format);
document.addEventListener("keydown", ({ key }) => key === "Escape" && stopNow?.());

function save(format) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([written[format](segments)], { type: "text/plain" }));
  link.download = `${stem}.${format}`;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function microphone() {
  const media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  return { media, end: () => media.getTracks().forEach((track) => track.stop()) };
}

// Uploads a file; its words appear segment by segment, and a click on one plays it.
async function transcribe(file) {
  stopNow?.();
  clear(file.name);
  load(file);
  running(true);
  const { answer, stop } = upload(file, fields(), $("key").value.trim(), {
    onSent: (share) => progress(share, share < 1 ? `sending, ${Math.round(100 * share)} %` : "recognising"),
    onWords: (words) => {
      if (!words.length) return;
      finish(words.map(({ confidence, ...word }) => ({ ...word, conf: confidence })));
      const { end } = words.at(-1);
      const of = Number.isFinite(player.duration) ? ` of ${player.duration.toFixed(0)}` : "";
      progress(of && end / player.duration, `recognising, ${end.toFixed(0)}${of} s`);
    },
  });
  stopNow = stop;
  const error = await answer;
  if (stopNow !== stop) return; // another stream has begun
  stopNow = null;
  running(false);
  $("progress").hidden = true;
  state(error || "done", Boolean(error));
}

function fields() {
  return { model: $("model").value, hot: $("hot").value };
}

function load(file) {
  URL.revokeObjectURL(player.src);
  player.src = URL.createObjectURL(file);
  player.hidden = false;
  $("wave").hidden = true;
}

function unload() {
  player.pause();
  URL.revokeObjectURL(player.src);
  player.removeAttribute("src");
  player.hidden = true;
  $("wave").hidden = false;
}

function progress(share, text) {
  $("progress").hidden = false;
  if (share) $("progress").value = share;
  else $("progress").removeAttribute("value");
  state(text);
}

function play({ start, end }) {
  if (player.hidden) return;
  player.currentTime = Number(start);
  playUntil = Number(end);
  player.play().then(pauseAtEnd, () => state("this browser cannot play the file", true));
}

// Each frame of the screen, until the end of the word: the element itself tells its time four times a second.
function pauseAtEnd() {
  if (player.currentTime >= playUntil) player.pause();
  if (player.paused) playUntil = Infinity;
  else if (playUntil < Infinity) requestAnimationFrame(pauseAtEnd);
}

async function listen() {
  stopNow?.();
  unload();
  const context = new AudioContext();
  let source, socket;
  const stop = () => {
    if (stopNow !== stop) return;
    stopNow = null;
    source?.end();
    context.close();
    running(false);
    if (socket?.readyState === WebSocket.OPEN) {
      state("finishing");
      socket.endedAt = performance.now();
      socket.send('{"eof": 1}');
    }
  };
  stopNow = stop;
  running(true);
  clear("");
  try {
    socket = await connect(context.sampleRate, stop);
    await context.audioWorklet.addModule("worklet.js");
    source = await microphone();
    if (stopNow !== stop) return source.end(); // stopped during the question for the microphone
    const buffers = new AudioWorkletNode(context, "buffers", { numberOfOutputs: 0 });
    buffers.port.onmessage = ({ data }) => {
      draw(data);
      if (stopNow === stop && socket.readyState === WebSocket.OPEN) {
        socket.begunAt ??= performance.now();
        socket.send(data);
      }
    };
    context.createMediaStreamSource(source.media).connect(buffers);
    state("listening");
  } catch (error) {
    stop();
    source?.end();
    socket?.close();
    state(error.message, true);
  }
}

function connect(rate, stop) {
  const key = $("key").value.trim();
  const socket = new WebSocket(location.href.replace(/^http/, "ws").replace(/[?#].*/, ""), key ? ["ds2", `ds2.key.${encodeURIComponent(key)}`] : []);
  socket.onmessage = ({ data }) => show(JSON.parse(data), socket);
  return new Promise((resolve, reject) => {
    socket.onopen = () => {
      const hot = $("hot").value.split(",").map((word) => word.trim()).filter(Boolean);
      socket.send(JSON.stringify({ config: { sample_rate: rate, push: 1, model: $("model").value, hot } }));
      resolve(socket);
    };
    socket.onclose = async ({ code, reason }) => {
      if (socket.endedAt) $("latency").textContent = `${Math.round(performance.now() - socket.endedAt)} ms`;
      stop();
      if (code !== 1000) state(reason || (await refusal()), true);
      else if (!$("state").classList.contains("error")) state("done");
      reject(new Error($("state").textContent));
    };
  });
}

// Browsers hide the answer to a refused WebSocket; the same server says it to a request.
async function refusal() {
  const key = $("key").value.trim();
  const answer = await fetch("v1/models", { headers: key ? { authorization: `Bearer ${key}` } : {} }).catch(() => null);
  if (!answer) return "the server cannot be reached";
  return answer.ok ? "the connection was closed" : (await answer.json()).error.message;
}

function show(message, socket) {
  if (message.error) return state(message.error, true);
  if (message.partial) {
    if (!socket.shown) $("first").textContent = `${Math.round(performance.now() - socket.begunAt)} ms`;
    socket.shown = true;
    $("stable").textContent = message.partial.slice(0, message.stable);
    $("partial").textContent = message.partial.slice(message.stable);
  } else if ("text" in message) {
    $("stable").textContent = $("partial").textContent = "";
    if (message.result) finish(message.result);
  }
}

function finish(words) {
  const line = document.createElement("span");
  line.className = "segment";
  line.dataset.time = `${Math.floor(words[0].start / 60)}:${(words[0].start % 60).toFixed(1).padStart(4, "0")}`;
  for (const word of shown(words, segments.at(-1)?.at(-1))) line.append(word.space, shaded(word));
  $("final").append(line);
  segments.push(words);
  savable(true);
}

function savable(yes) {
  for (const button of [$("copy"), ...document.querySelectorAll(".save")]) button.disabled = !yes;
}

function shaded({ word, conf, start, end }) {
  const span = document.createElement("span");
  span.className = `word c${conf < 0.6 ? 0 : conf < 0.85 ? 1 : 2}`;
  span.textContent = word;
  Object.assign(span.dataset, { start, end });
  span.title = `${(100 * conf).toFixed(0)} %, ${start.toFixed(2)}–${end.toFixed(2)} s`;
  return span;
}

const levels = new Array(400).fill(0);

function draw(buffer) {
  levels.push(Math.sqrt(Math.max(...buffer) / 32768)); // the root makes quiet speech visible
  levels.shift();
  const canvas = $("wave");
  const pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
  const step = canvas.width / levels.length;
  levels.forEach((level, i) => {
    const height = Math.max(1, level * canvas.height);
    pen.fillRect(i * step, (canvas.height - height) / 2, step - 1, height);
  });
}

function state(text, error = false) {
  $("state").textContent = text;
  $("state").classList.toggle("error", error);
}

function running(yes) {
  $("stop").disabled = !yes;
  $("microphone").disabled = yes;
}

function clear(file) {
  stem = fileStem(file, new Date());
  for (const id of ["final", "stable", "partial"]) $(id).textContent = "";
  for (const id of ["first", "latency"]) $(id).textContent = "–";
  segments = [];
  savable(false);
  state("connecting");
}

async function measure() {
  const key = $("key").value.trim();
  const answer = await fetch("metrics", { headers: key ? { authorization: `Bearer ${key}` } : {} });
  if (!answer.ok) return answer.status;
  const values = new Map();
  for (const line of (await answer.text()).split("\n")) {
    const space = line.lastIndexOf(" ");
    if (line && !line.startsWith("#")) values.set(line.slice(0, space), Number(line.slice(space + 1)));
  }
  bars($("latencies"), values, "ds2_final_latency_seconds", (bound) => (bound < 1 ? 1000 * bound : `${bound} s`));
  bars($("batches"), values, "ds2_batch_size", (bound) => bound);
  $("streams").textContent = values.get("ds2_streams_open") ?? "–";
  const sound = values.get("ds2_sound_seconds_total");
  $("factor").textContent = sound ? (values.get("ds2_busy_seconds_total") / sound).toFixed(3) : "–";
}

function bars(chart, values, name, label) {
  const counts = [];
  let below = 0;
  for (const [key, value] of values) {
    const bound = key.match(`^${name}_bucket{le="(.*)"}$`)?.[1];
    if (bound === undefined) continue;
    counts.push([bound === "+Inf" ? "more" : label(Number(bound)), value - below]);
    below = value;
  }
  const most = Math.max(1, ...counts.map(([, count]) => count));
  chart.replaceChildren(...counts.map(([text, count]) => {
    const bar = document.createElement("div");
    const caption = document.createElement("span");
    bar.style.height = `${(100 * count) / most}%`;
    bar.classList.toggle("hidden", !count);
    bar.title = `up to ${text}: ${count}`;
    caption.textContent = text;
    bar.append(caption);
    return bar;
  }));
}

async function listModels() {
  const key = $("key").value.trim();
  const answer = await fetch("v1/models", { headers: key ? { authorization: `Bearer ${key}` } : {} });
  if (!answer.ok) return;
  $("model").replaceChildren(...(await answer.json()).data.map(({ id, knows }) => {
    const option = new Option(id, id);
    option.dataset.knows = `${id} knows ${knows}`;
    return option;
  }));
  $("model-label").hidden = $("model").options.length < 2;
  $("model").onchange();
}

// The server counts and logs each refusal: after one, the page asks again only with another key.
async function watch() {
  const refused = (await measure().catch(() => {})) === 401;
  if (refused) $("key").addEventListener("change", watch, { once: true });
  else {
    if (!$("model").options.length) await listModels().catch(() => {});
    setTimeout(watch, 1000);
  }
}
watch();
