"use strict";
// The one player: shapes that move over steps. Studies of people draw with `drawStage` alone.
const element = (kind, values = {}, ...inside) => {
  const made = Object.assign(document.createElement(kind), values);
  made.append(...inside);
  return made;
};

// what changes over the steps is packed as a first value and differences, in hundredths
function unpack(stage) {
  for (const shape of stage.shapes) {
    for (const name of ["x", "y", "turn"].filter((name) => Array.isArray(shape[name]))) {
      let sum = 0;
      shape[name] = shape[name].map((change) => (sum += change) / 100);
    }
  }
  return stage;
}

// draws a stage as it is at a time, in steps, and returns its shapes as they are then; `named(text)`: what is written, if it is not the text
function drawStage(canvas, stage, time, cuts = [], named = () => null) {
  const pen = canvas.getContext("2d"), scale = canvas.width / stage.width, pixel = canvas.width / (canvas.clientWidth || canvas.width);
  const step = Math.floor(time + 1e-6), share = cuts.includes(step + 1) ? 0 : time - step; // nothing moves through a cut
  const at = (track, when = step, part = 0) => {
    if (!Array.isArray(track)) return track ?? 0;
    const here = track[Math.min(when, track.length - 1)], next = track[Math.min(when + 1, track.length - 1)];
    return here + part * (next - here);
  };
  const trace = (points) => { points.forEach(([x, y], place) => (place ? pen.lineTo(x, y) : pen.moveTo(x, y))); pen.closePath(); };
  const now = stage.shapes.map((shape) => Object.assign({}, shape, ...(shape.changes ?? []).filter(([when]) => when <= step).map(([, change]) => change)));
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.fillStyle = stage.fill;
  pen.fillRect(0, 0, stage.width, stage.height);
  for (const shape of now) {
    if (shape.hidden) continue;
    const x = at(shape.x, step, share), y = at(shape.y, step, share);
    pen.save();
    pen.globalAlpha = shape.alpha ?? 1;
    pen.strokeStyle = pen.fillStyle = shape.fill ?? "#000";
    if (shape.trail && Array.isArray(shape.x)) {
      pen.globalAlpha *= 0.5;
      pen.lineWidth = 0.007 * stage.width;
      pen.beginPath();
      for (let when = Math.max(0, step - shape.trail, ...cuts.filter((cut) => cut <= step)); when <= step; when++) pen.lineTo(at(shape.x, when), at(shape.y, when));
      pen.lineTo(x, y);
      pen.stroke();
      pen.globalAlpha *= 2;
    }
    pen.translate(x, y);
    pen.rotate((at(shape.turn, step, share) * Math.PI) / 180);
    if (shape.grow && innerWidth <= 640) pen.scale(shape.grow, shape.grow);
    for (const hole of shape.holes ?? []) {
      pen.beginPath();
      pen.rect(-stage.width, -stage.width, 2 * stage.width, 2 * stage.width);
      trace(hole);
      pen.clip("evenodd");
    }
    pen.beginPath();
    if (shape.radius) pen.arc(0, 0, shape.radius, 0, 2 * Math.PI);
    for (const points of shape.points ?? []) trace(points);
    if (shape.fill) pen.fill();
    if (shape.line) {
      pen.strokeStyle = shape.line;
      pen.lineWidth = shape.wide;
      pen.setLineDash(shape.dash ?? []);
      pen.stroke();
    }
    pen.restore();
    if (!shape.text) continue;
    const few = shape.short && innerWidth <= 640, high = Math.max(shape.letters * scale, shape.room ? 11 * pixel : 0); // what is smaller cannot be read
    pen.save();
    pen.setTransform(1, 0, 0, 1, (x + (few ? 0 : shape.right ?? 0)) * scale, (y + (few ? 0 : shape.down ?? 0)) * scale);
    const font = (size) => { pen.font = `${shape.room ? "" : "bold "}${size}px system-ui, sans-serif`; };
    const text = few ? shape.short : named(shape.text) ?? shape.text;
    font(high);
    if (shape.room && !few) font(high * Math.min(1, Math.max((shape.room * scale) / pen.measureText(text).width, 0.55)));
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineWidth = 0.16 * scale;
    pen.strokeStyle = "#fff";
    if (shape.room) pen.strokeText(text, 0, 0);
    pen.fillStyle = shape.ink ?? "#000";
    pen.fillText(text, 0, 0);
    pen.restore();
  }
  return now;
}

// puts a player into a place of the page; calling what it returns takes it away
function playIn(place, replay) {
  const last = replay.steps - 1, context = replay.context ?? null, cuts = replay.cuts ?? [];
  const button = element("button", { type: "button" }), slider = element("input", { type: "range", min: 0, max: last, step: 1, ariaLabel: "step" });
  const clock = element("output"), lanes = element("canvas", { className: "lanes", height: 13 * (replay.stages.length + 1) });
  const speed = element("select", { ariaLabel: "speed" }, ...[0.25, 0.5, 1, 2, 4, 8].map((times) => element("option", { value: times, textContent: `${times} ×` })));
  const jump = [["◂ event", -1], ["event ▸", 1]].map(([textContent, way]) => Object.assign(element("button", { type: "button", textContent }), { onclick: () => go(way) }));
  const shown = replay.stages.map((stage) => {
    unpack(stage);
    const canvas = element("canvas", { width: 640, height: Math.round((640 * stage.height) / stage.width), ariaLabel: `${stage.name}, seen from above` });
    canvas.setAttribute("role", "img");
    const events = (stage.events ?? []).map(([step, words, mark]) => {
      const line = element("li", { textContent: `${step === null ? "never" : step}  ${words} ${{ right: "✓", wrong: "✗" }[mark] ?? ""}`, className: mark ?? "" });
      if (step !== null) line.onclick = () => still(step);
      return [step, line];
    });
    const state = element("span", { className: "state" }), list = element("ul", {}, ...events.map(([, line]) => line));
    const name = element("figcaption", {}, element("strong", { textContent: stage.name }), " ", state);
    return { stage, canvas, events, state, figure: element("figure", {}, name, canvas, list) };
  });
  const curves = replay.curves?.length ? element("canvas", { className: "curves", width: 640, height: 150, ariaLabel: "curves over the steps" }) : "";
  const key = element("p", { className: "key" }, ...(replay.curves ?? []).map(({ name, color }) => Object.assign(element("span", { textContent: `— ${name} ` }), { style: `color: ${color}` })), replay.note ?? "");
  const told = shown.some(({ events }) => events.length) || context; // is there anything to jump to?
  place.append(element("p", { className: "buttons" }, button, ...(told ? jump : []), speed, clock), slider, told ? lanes : "", element("div", { className: "stages" }, ...shown.map(({ figure }) => figure)), curves, key);
  const first = replay.first ?? 0, moments = [...new Set([...shown.flatMap(({ events }) => events.map(([step]) => step)), ...(context ? [context] : [])])].filter((step) => step !== null);
  let time = first, moving = !matchMedia("(prefers-reduced-motion: reduce)").matches, before = null, request = null;
  speed.value = replay.speed ?? 1;
  const still = (step) => { moving = false; time = step; };
  const go = (way) => {
    const ahead = moments.filter((step) => (step - Math.floor(time)) * way > 0);
    if (ahead.length) still(way > 0 ? Math.min(...ahead) : Math.max(...ahead));
  };
  const strip = (canvas, draw) => { // a drawing over the steps, beneath the slider: its thumb is some 16 pixels wide
    canvas.width = canvas.clientWidth || 640;
    const pen = canvas.getContext("2d"), x = (step) => 8 + ((canvas.width - 16) * step) / Math.max(last, 1);
    draw(pen, x, canvas.height);
    pen.fillStyle = "#222";
    pen.fillRect(x(Math.min(time, last)) - 0.75, 0, 1.5, canvas.height);
  };
  function draw() {
    const step = Math.min(Math.floor(time), last), visit = cuts.length ? `visit ${1 + cuts.filter((cut) => cut <= step).length}` : "";
    for (const { stage, canvas, events, state } of shown) {
      drawStage(canvas, stage, Math.min(time, last), cuts);
      const imagined = stage.imagined && context !== null && step >= context;
      canvas.className = imagined ? "imagined" : "";
      state.textContent = [visit, stage.imagined && context !== null ? (imagined ? "imagined" : "shown") : ""].filter(Boolean).join(", ");
      for (const [when, line] of events) line.classList.toggle("ahead", when !== null && when > step);
    }
    if (told) strip(lanes, (pen, x, high) => {
      pen.fillStyle = "#e4e2dc";
      if (context) pen.fillRect(0, 0, x(context), high);
      pen.fillStyle = "#777";
      for (const cut of cuts) pen.fillRect(x(cut), 0, 1, high);
      for (const [lane, { stage }] of shown.entries()) {
        for (const [when, , mark, color] of (stage.events ?? []).filter(([when]) => when !== null)) {
          pen.fillStyle = color ?? "#555";
          pen.beginPath();
          pen.arc(x(when), 13 * (lane + 1), 5, 0, 2 * Math.PI);
          pen.fill();
        }
      }
    });
    if (curves) {
      strip(curves, (pen, x, high) => {
        for (const { color, values } of replay.curves) {
          const known = values.filter((value) => value !== null), low = Math.min(0, ...known), top = Math.max(1e-9, ...known);
          for (const [from, upto, alpha] of [[0, last, 0.25], [0, step, 1]]) {
            pen.beginPath();
            for (let when = from; when <= upto; when++) if (values[when] !== null) pen.lineTo(x(when), high - 6 - ((high - 12) * (values[when] - low)) / (top - low));
            pen.globalAlpha = alpha;
            pen.strokeStyle = color;
            pen.lineWidth = 2;
            pen.stroke();
          }
          pen.globalAlpha = 1;
        }
      });
    }
    slider.value = step;
    clock.textContent = `${(step * replay.seconds).toFixed(1)} s, step ${step} of ${last}`;
    button.textContent = moving ? "Pause" : "Play";
  }
  function frame(now) {
    const rate = Number(speed.value) / replay.seconds;
    if (moving && before !== null) time += ((now - before) / 1000) * rate;
    if (moving && time > last + rate) time = first; // the end stands for a second
    before = now;
    draw();
    request = requestAnimationFrame(frame);
  }
  button.onclick = () => { if (!moving && time >= last) time = first; moving = !moving; };
  slider.oninput = () => still(Number(slider.value));
  lanes.onclick = (event) => still(Math.max(0, Math.min(last, Math.round(((event.offsetX - 8) / (lanes.clientWidth - 16)) * last))));
  request = requestAnimationFrame(frame);
  const own = document.documentElement; // inside of another page: as tall as what is in it
  if (frameElement) new ResizeObserver(() => { frameElement.style.height = `${own.offsetHeight + 16}px`; }).observe(own);
  return () => { cancelAnimationFrame(request); place.replaceChildren(); };
}
