"use strict";

// A click on a spectrogram plays from there; one segment at a time; the playhead follows.
for (const segment of document.querySelectorAll(".segment")) {
  const figure = segment.querySelector("figure");
  const audio = segment.querySelector("audio");
  const playhead = segment.querySelector(".playhead");
  const follow = () => {
    playhead.style.left = `${(100 * audio.currentTime) / (audio.duration || 1)}%`;
    if (!audio.paused) requestAnimationFrame(follow);
  };
  const playFrom = (share) => {
    const start = () => { audio.currentTime = share * audio.duration; audio.play(); };
    if (audio.readyState > 0) start();
    else { audio.addEventListener("loadedmetadata", start, { once: true }); audio.load(); }
  };
  figure.addEventListener("click", (event) => {
    const box = figure.getBoundingClientRect();
    playFrom((event.clientX - box.left) / box.width);
  });
  figure.addEventListener("keydown", (event) => {
    if (event.key === "Enter") playFrom(0);
  });
  audio.addEventListener("play", () => {
    for (const other of document.querySelectorAll("audio")) if (other !== audio) other.pause();
    follow();
  });
}

// A recording's page: which segments, in which order.
const show = document.getElementById("show");
const order = document.getElementById("order");
if (show && order) {
  const cards = document.querySelector(".cards");
  const arrange = () => {
    const sign = order.value === "odds" ? -1 : 1;
    const sorted = [...cards.children].sort((a, b) => sign * (a.dataset[order.value] - b.dataset[order.value]));
    for (const card of sorted) card.hidden = show.value !== "" && !card.classList.contains(show.value);
    cards.append(...sorted);
  };
  show.addEventListener("change", arrange);
  order.addEventListener("change", arrange);
}

// The page of segments to check: what is typed outlives a reload, and is saved as checked.jsonl.
const save = document.getElementById("save");
if (save) {
  const key = `checked ${location.pathname}`;
  const rows = [...document.querySelectorAll(".truth")].map((row) => ({
    text: row.querySelector("textarea"),
    tick: row.querySelector("input"),
  }));
  let stored = {};
  try { stored = JSON.parse(localStorage.getItem(key) || "{}"); } catch { stored = {}; }
  const checked = () => rows.filter((row) => row.tick.checked);
  const remember = () => {
    const entries = checked().map((row) => [row.text.dataset.id, row.text.value]);
    try { localStorage.setItem(key, JSON.stringify(Object.fromEntries(entries))); } catch { /* private window */ }
    document.getElementById("count").textContent = entries.length;
    save.disabled = entries.length === 0;
  };
  for (const row of rows) {
    const text = stored[row.text.dataset.id];
    if (text !== undefined) { row.text.value = text; row.tick.checked = true; }
    row.tick.addEventListener("change", remember);
    row.text.addEventListener("input", () => { row.tick.checked = true; remember(); });
  }
  remember();
  save.addEventListener("click", () => {
    const lines = checked().map((row) => JSON.stringify({ id: row.text.dataset.id, text: row.text.value.trim() }) + "\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
    link.download = "checked.jsonl";
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
