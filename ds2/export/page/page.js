// Sound from the microphone or a file goes through the model in this page; its text appears as it comes.
import { load } from "./model.js";

const FILE_SECONDS = 2; // of a file between two partial texts
const CANCELLED = 1e-3; // of the channels' power: where their mean has less, they hold one sound with opposite signs
const $ = (id) => document.getElementById(id);
let stopNow = null; // ends the recording from the microphone
let model = null;

$("microphone").onclick = () => guarded(listen);
$("stop").onclick = () => stopNow?.();
$("file").onchange = () => {
  const [file] = $("file").files;
  $("file").value = "";
  if (file) guarded(() => transcribe(file));
};
guarded(async () => {
  model = await load();
});

// Runs one piece of work; the controls wait for its end.
async function guarded(work) {
  controls(true);
  $("final").textContent = $("partial").textContent = "";
  try {
    await work();
    state(model && $("final").textContent ? "done" : "ready");
  } catch (error) {
    state(error.message, true);
  } finally {
    stopNow = null;
    $("stop").disabled = true;
    controls(model === null);
  }
}

async function listen() {
  state("asking for the microphone");
  const media = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const context = new AudioContext({ sampleRate: model.facts.sample_rate });
  try {
    await context.audioWorklet.addModule("worklet.js");
    const buffers = new AudioWorkletNode(context, "buffers", { numberOfOutputs: 0 });
    const stream = model.begin();
    let work = Promise.resolve();
    const stopped = new Promise((stop) => (stopNow = stop));
    buffers.port.onmessage = ({ data }) => {
      work = work.then(() => advance(stream, data, false));
      work.catch(stopNow); // an error of the model ends the recording
    };
    context.createMediaStreamSource(media).connect(buffers);
    $("stop").disabled = false;
    state("listening");
    await stopped;
    buffers.port.onmessage = null;
    state("finishing");
    await work;
    await advance(stream, new Float32Array(0), true);
  } finally {
    media.getTracks().forEach((track) => track.stop());
    await context.close();
  }
}

async function transcribe(file) {
  state("reading the file");
  const context = new OfflineAudioContext(1, 1, model.facts.sample_rate);
  const sound = await context.decodeAudioData(await file.arrayBuffer());
  const samples = mixdown(sound);
  const stream = model.begin();
  const size = FILE_SECONDS * model.facts.sample_rate;
  const begun = performance.now();
  state("transcribing");
  for (let start = 0; start < samples.length; start += size) {
    await advance(stream, samples.subarray(start, start + size), start + size >= samples.length);
  }
  $("factor").textContent = ((performance.now() - begun) / 1000 / sound.duration).toFixed(3);
  $("search").textContent = (stream.decoder.seconds / sound.duration).toFixed(3);
}

async function advance(stream, samples, last) {
  const text = await stream.push(samples, last);
  $("partial").textContent = last ? "" : text;
  if (last) $("final").textContent = text;
}

// Several channels -> their mean; where it cancels out, the first that is about as loud as any (ds2/audio/mixdown.py).
function mixdown(sound) {
  const channels = Array.from({ length: sound.numberOfChannels }, (_, number) => sound.getChannelData(number));
  const mean = new Float32Array(sound.length);
  for (const channel of channels) channel.forEach((value, at) => (mean[at] += value / channels.length));
  const powers = channels.map(power);
  const whole = powers.reduce((sum, value) => sum + value);
  if (power(mean) * channels.length >= CANCELLED * whole) return mean;
  return channels[powers.findIndex((value) => value > Math.max(...powers) / 2)];
}

function power(samples) {
  return samples.reduce((sum, value) => sum + value * value, 0);
}

function controls(busy) {
  $("microphone").disabled = $("file").disabled = busy;
}

function state(text, error = false) {
  $("state").textContent = text;
  $("state").classList.toggle("error", error);
}
