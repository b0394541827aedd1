// Adds to a page that is whole without it: charts that can be zoomed, a search, and new releases as they are made.
"use strict";
(() => {
  const plotly = document.currentScript.dataset.plotly;
  let loading = null;
  // No buttons: a chart is hidden from screen readers, so that nothing in it may take the keyboard's focus.
  const SETTINGS = { responsive: true, scrollZoom: false, displayModeBar: false };

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function load() {
    loading ??= new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = plotly;
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(script);
    });
    return loading;
  }

  function traces(data) {
    if (data.kind === "bars") {
      const above = data.high.map((high, i) => high - data.value[i]);
      const below = data.low.map((low, i) => data.value[i] - low);
      const bands = { type: "data", symmetric: false, array: above, arrayminus: below, color: colour("--whisker"), thickness: 1.6, width: 3 };
      return [{ type: "bar", x: data.x, y: data.value, error_y: bands, marker: { color: colour("--bar") }, hovertemplate: "%{x}: %{y:,} ±%{error_y.array:,}<extra></extra>" }];
    }
    const band = { x: data.x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    return [
      { ...band, y: data.low },
      { ...band, y: data.high, fill: "tonexty", fillcolor: colour("--band") },
      { x: data.x, y: data.value, mode: "lines", line: { color: colour("--accent"), width: 2 }, customdata: data.high.map((high, i) => high - data.value[i]), hovertemplate: "%{x}: %{y:,} ±%{customdata:,}<extra></extra>" },
    ];
  }

  function draw(figure) {
    const data = JSON.parse(figure.dataset.chart);
    let place = figure.querySelector(".chart");
    if (!place) {
      place = document.createElement("div");
      place.className = "chart";
      place.setAttribute("aria-hidden", "true"); // the caption and the table say the same
      figure.append(place);
    }
    const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--soft"), automargin: true, ticks: "outside", ticklen: 6, tickcolor: "rgba(0,0,0,0)" };
    const count = data.x.length;
    // Windows stand side by side, however long they are; of many, the last are in view and the rest is scrolled to.
    const shown = data.kind === "bars" ? { type: "category", nticks: place.clientWidth < 500 ? 3 : 8, tickangle: 0, range: [Math.max(count - 62, 0) - 0.5, count - 0.5] } : {};
    const layout = { margin: { l: 50, r: 10, t: 10, b: 30 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: colour("--ink") }, showlegend: false, hovermode: "x", xaxis: { ...axis, ...shown }, yaxis: axis };
    return window.Plotly.react(place, traces(data), layout, SETTINGS).then(() => {
      figure.classList.add("drawn");
      if (data.more && data.kind === "total" && !place.finer) {
        place.finer = true;
        place.on("plotly_relayout", (change) => finer(figure, place, change));
      }
    });
  }

  // A long line has some of its points only: those of the part that is looked at are fetched.
  async function finer(figure, place, change) {
    const releases = document.getElementById("content").dataset.releases;
    const whole = change["xaxis.autorange"];
    const from = change["xaxis.range[0]"];
    if (!releases || (from === undefined && !whole)) return;
    const data = JSON.parse(figure.dataset.chart);
    if (!whole) {
      const place_of = (x) => (typeof data.x[0] === "number" ? Number(x) : new Date(x).getTime());
      const at = data.x.map((x) => place_of(x));
      const first = data.step[Math.max(at.findLastIndex((x) => x <= place_of(from)), 0)];
      const after = at.findIndex((x) => x >= place_of(change["xaxis.range[1]"]));
      const last = data.step[after < 0 ? at.length - 1 : after];
      const query = new URLSearchParams({ from: first, to: last, points: 2000 });
      if (figure.dataset.name) query.set("category", figure.dataset.name);
      const answer = await fetch(`${releases}?${query}`);
      if (!answer.ok) return;
      const found = (await answer.json()).releases;
      const inside = { x: [], step: [], value: [], low: [], high: [] };
      for (const one of found) {
        inside.x.push(one.start ?? one.step);
        for (const name of ["step", "value", "low", "high"]) inside[name].push(one[name]);
      }
      const before = data.step.findIndex((step) => step >= first);
      const behind = data.step.findLastIndex((step) => step <= last) + 1;
      for (const name of Object.keys(inside)) data[name] = [...data[name].slice(0, before), ...inside[name], ...data[name].slice(behind)];
    }
    await window.Plotly.react(place, traces(data), place.layout, SETTINGS);
    figure.dataset.points = data.x.length;
  }

  function enhance() {
    const figures = [...document.querySelectorAll("figure[data-chart]")];
    const find = document.getElementById("find");
    if (find) {
      find.closest(".find").hidden = false;
      find.addEventListener("input", () => {
        for (const figure of document.querySelectorAll("figure[data-name]")) {
          figure.hidden = !figure.dataset.name.toLowerCase().includes(find.value.toLowerCase());
        }
      });
    }
    if (figures.length) {
      load().then(() => Promise.all(figures.map(draw))).catch(() => {}); // the pictures of the server stay
    }
  }

  async function refresh(step) {
    const answer = await fetch(location.href, { cache: "no-cache" });
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const typed = document.getElementById("find")?.value ?? "";
    document.getElementById("content").replaceWith(fresh.getElementById("content"));
    enhance();
    const find = document.getElementById("find");
    if (find && typed) {
      find.value = typed;
      find.dispatchEvent(new Event("input"));
    }
    document.getElementById("news").textContent = `New: step ${step}.`;
    document.body.dataset.step = step;
  }

  enhance();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", enhance);
  const events = document.body.dataset.events;
  if (events) {
    let waiting = null;
    const source = new EventSource(events);
    source.addEventListener("release", (event) => {
      clearTimeout(waiting); // several steps that close together are one change
      waiting = setTimeout(() => refresh(event.lastEventId), 50);
    });
    source.addEventListener("open", () => { document.body.dataset.connected = "yes"; });
    source.addEventListener("error", () => { document.body.dataset.connected = "no"; });
  }
})();
