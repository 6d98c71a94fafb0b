"use strict";
// The page is rendered on the server. This script replaces regions from the stream, shows the age of the data, and draws charts.

const RETRY_MS = 2000;
const LATE_S = 15;
const root = document.documentElement;
const live = document.getElementById("live");
const liveText = document.getElementById("live-text");

// ---------------------------------------------------------------- age of the data
const state = { problem: "", ageS: 0, receivedMs: 0, connected: false, ended: false };

function showLive() {
  let [kind, text] = ["offline", "offline, connecting again"];
  if (state.ended) {
    text = "the session has ended: start the command again";
  } else if (state.problem) {
    [kind, text] = ["late", state.problem];
  } else if (state.connected && state.receivedMs) {
    const age = Math.round(state.ageS + (Date.now() - state.receivedMs) / 1000);
    kind = age > LATE_S ? "late" : "fresh";
    text = `live, ${age} s ago`;
  } else if (!state.receivedMs && !state.failed) {
    [kind, text] = ["late", "connecting"];
  }
  // A screen reader announces a change of the state, not each second.
  live.dataset.kind = kind;
  live.setAttribute("aria-live", live.dataset.said === kind ? "off" : "polite");
  live.dataset.said = kind;
  if (liveText.textContent !== text) liveText.textContent = text;
}

// ---------------------------------------------------------------- stream
function receive(message) {
  if (message.reload) {
    location.reload();
    return;
  }
  state.problem = message.problem || "";
  if (message.age_s !== undefined) [state.ageS, state.receivedMs] = [message.age_s, Date.now()];
  for (const [id, html] of Object.entries(message.regions || {})) replaceRegion(id, html);
  if (message.chart) drawCharts(message.chart);
  showLive();
}

function replaceRegion(id, html) {
  const region = document.getElementById(id);
  if (!region || region.innerHTML === html) return;
  const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
  htmx.swap(region, html, { swapStyle: "innerHTML" });
  if (focused) (document.getElementById(focused) || region.querySelector("button:enabled, a") || document.getElementById("main")).focus();
}

function follow(url) {
  let source = null;
  let timer = 0;
  const connect = () => {
    clearTimeout(timer);
    if (source) source.close();
    if (state.ended) return;
    source = new EventSource(url);
    source.onopen = () => { state.connected = true; showLive(); };
    source.onmessage = (event) => receive(JSON.parse(event.data));
    source.onerror = () => {
      [state.connected, state.failed] = [false, true];
      source.close();
      showLive();
      timer = setTimeout(check, RETRY_MS);
    };
  };
  const check = async () => {
    try {
      state.ended = (await fetch("/static/icon.svg", { method: "HEAD", cache: "no-store" })).status === 401;
    } catch {
      timer = setTimeout(check, RETRY_MS);
      return;
    }
    showLive();
    connect();
  };
  // A browser has six connections to a server: a hidden page gives its own back.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(timer);
      if (source) source.close();
      state.connected = false;
    } else {
      connect();
    }
  });
  window.addEventListener("online", connect);
  window.addEventListener("offline", () => {
    if (source) source.close();
    [state.connected, state.failed] = [false, true];
    showLive();
  });
  window.addEventListener("pagehide", () => source && source.close());
  connect();
  setInterval(showLive, 1000);
}

// ---------------------------------------------------------------- charts
const charts = {};
let chartData = null;

function colour(name) {
  return getComputedStyle(root).getPropertyValue(name).trim();
}

function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
}

function short(value) {
  for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) if (value >= size) return `${+(value / size).toFixed(1)}${unit}`;
  return String(Math.round(value * 10) / 10);
}

function draw(id, series, data) {
  const box = document.getElementById(id);
  if (!box || data[0].length < 2) return;
  const width = box.clientWidth;
  if (charts[id]) {
    charts[id].setSize({ width, height: 150 });
    charts[id].setData(data);
    return;
  }
  const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 }, font: "12px sans-serif" };
  charts[id] = new uPlot({
    width,
    height: 150,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_chart, _low, high) => [0, Math.max(1, (high || 0) * 1.15)] } },
    axes: [{ ...axis, values: (_chart, ticks) => ticks.map(clock), space: 70 }, { ...axis, size: 52, values: (_chart, ticks) => ticks.map(short) }],
    series: [{}, ...series],
  }, data, box);
}

function drawCharts(data) {
  chartData = data;
  const rate = { label: "rows/s", stroke: colour("--good"), width: 2, fill: colour("--good-fill"), points: { show: false } };
  const limit = { label: "limit", stroke: colour("--warn"), width: 2, dash: [6, 4], points: { show: false } };
  const lag = { label: "lag", stroke: colour("--accent"), width: 2, points: { show: false } };
  draw("chart-rate", [rate, limit], [data.at, data.rate, data.limit]);
  draw("chart-lag", [lag], [data.at, data.lag]);
}

function redrawCharts() {
  for (const id of Object.keys(charts)) {
    charts[id].destroy();
    delete charts[id];
  }
  if (chartData) drawCharts(chartData);
}

// ---------------------------------------------------------------- theme, copies, failed actions
function theme() {
  return root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function showTheme() {
  document.getElementById("theme-name").textContent = theme() === "dark" ? "light" : "dark";
}

document.getElementById("theme").addEventListener("click", () => {
  root.dataset.theme = theme() === "dark" ? "light" : "dark";
  document.cookie = `theme=${root.dataset.theme}; path=/; samesite=strict; max-age=31536000`;
  showTheme();
  redrawCharts();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { showTheme(); redrawCharts(); });
window.addEventListener("resize", () => chartData && drawCharts(chartData));

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.firstChild.textContent = "Copied";
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submits]")) event.target.form.submit();
});

function answer(text) {
  const box = document.getElementById("answer");
  if (!box) return;
  const line = document.createElement("p");
  line.className = "bad";
  line.textContent = `✖ ${text}`;
  box.replaceChildren(line);
}

document.body.addEventListener("htmx:confirm", (event) => {
  const button = event.detail.triggeringEvent && event.detail.triggeringEvent.submitter;
  if (button && button.dataset.asks && !window.confirm(button.dataset.asks)) event.preventDefault();
});

document.body.addEventListener("htmx:beforeRequest", () => {
  const box = document.getElementById("answer");
  if (box) box.textContent = "sent, not acknowledged yet";
});
document.body.addEventListener("htmx:responseError", (event) => answer(event.detail.xhr.responseText.trim() || `the server answers ${event.detail.xhr.status}`));
document.body.addEventListener("htmx:sendError", () => answer("the page's command does not answer: was it ended?"));

showTheme();
const stream = document.querySelector("[data-stream]");
if (stream) follow(stream.dataset.stream);
