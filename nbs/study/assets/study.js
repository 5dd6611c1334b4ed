"use strict";
// One study of people: the page holds the stimuli (#study), the words (#words) and the consent text (#consent).
(() => {
  const part = (name) => JSON.parse(document.getElementById(name).textContent);
  const study = part("study"), words = part("words"), consent = part("consent");
  const say = (name, values = {}) => words[name].replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);
  const OBJECTS = ["obj0", "obj1", "obj2"], LETTERS = { obj0: "A", obj1: "B", obj2: "C" };
  const PAUSE = 500; // ms before a drawing moves

  // stimuli: every track is a first value and differences, in cm and degrees
  const unfold = (track) => { let sum = 0; return track.map((change) => (sum += change)); };
  for (const item of study.items) {
    for (const name of Object.keys(item.tracks)) item.tracks[name] = item.tracks[name].map(unfold);
  }

  // the room from above
  function draw(canvas, item, time) {
    const pen = canvas.getContext("2d"), scale = canvas.width / study.side;
    const last = item.tracks.obj0[0].length - 1, step = Math.min(Math.floor(time), last), share = Math.min(time, last) - step;
    const mix = (track) => track[step] + share * ((track[step + 1] ?? track[step]) - track[step]);
    const at = (name) => [mix(item.tracks[name][0]), mix(item.tracks[name][1])];
    const place = ([x, z]) => [(x / 100 + study.side / 2) * scale, (study.side / 2 - z / 100) * scale];
    const label = (text, [x, y], size, color) => {
      pen.fillStyle = color;
      pen.font = `bold ${size * scale}px system-ui, sans-serif`;
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(text, x, y);
    };
    pen.fillStyle = "#f7f7f4";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    const goal = place(study.goal.map((value) => value * 100)), half = 0.45 * scale;
    pen.strokeStyle = study.colors.observer;
    pen.lineWidth = 0.09 * scale;
    pen.setLineDash([0.35 * scale, 0.25 * scale]);
    pen.beginPath();
    pen.arc(...goal, study.radius * scale, 0, 2 * Math.PI);
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = study.colors.observer;
    pen.fillRect(goal[0] - half, goal[1] - half, 2 * half, 2 * half);
    for (const [number, name] of ["agent0", "agent1"].entries()) {
      const [x, y] = place(at(name)), angle = (item.tracks[name][2][step] * Math.PI) / 180, size = 1.3 * scale;
      const ahead = [Math.sin(angle), -Math.cos(angle)], side = [-ahead[1] * 0.42 * size, ahead[0] * 0.42 * size];
      pen.beginPath();
      pen.moveTo(x + 0.65 * size * ahead[0], y + 0.65 * size * ahead[1]);
      pen.lineTo(x - 0.4 * size * ahead[0] + side[0], y - 0.4 * size * ahead[1] + side[1]);
      pen.lineTo(x - 0.4 * size * ahead[0] - side[0], y - 0.4 * size * ahead[1] - side[1]);
      pen.closePath();
      pen.fillStyle = study.colors[name];
      pen.fill();
      label(String(number + 1), [x, y], 0.55, "#fff");
    }
    for (const name of OBJECTS) {
      const [x, y] = place(at(name)), lifted = item.tracks[name][2][step] > study.lifted;
      pen.beginPath();
      pen.arc(x, y, 0.42 * scale, 0, 2 * Math.PI);
      pen.fillStyle = study.colors[name];
      pen.fill();
      pen.strokeStyle = lifted ? "#000" : "#fff";
      pen.lineWidth = (lifted ? 0.16 : 0.05) * scale;
      pen.stroke();
      label(LETTERS[name], [x, y], 0.6, "#000");
    }
  }

  // one question to one drawing: play, answer, say how sure
  const element = (kind, values = {}, ...inside) => {
    const made = Object.assign(document.createElement(kind), values);
    made.append(...inside);
    return made;
  };

  class WatchAndAnswer {
    constructor(jsPsych) {
      this.jsPsych = jsPsych;
    }

    trial(display, trial) {
      const item = trial.item, steps = item.tracks.obj0[0].length, first = trial.show === "future" ? item.context - 1 : 0;
      const stop = trial.show === "future" ? steps - 1 : item.context - 1, rate = (study.speed * (trial.show === "future" ? 4 : 1)) / study.step_seconds;
      const canvas = element("canvas", { className: "study-room", width: 720, height: 720, ariaLabel: words.canvas });
      canvas.setAttribute("role", "img");
      const question = element("p", { className: "study-question", textContent: words.watch });
      question.setAttribute("aria-live", "polite");
      const again = element("button", { className: "study-again", type: "button", textContent: words.again, disabled: true });
      const next = element("button", { className: "study-next", type: "button", textContent: words.continue, disabled: true });
      display.replaceChildren(element("p", { className: "study-progress", textContent: trial.progress }), canvas, question);
      let answer = null, confidence = null, opened = null, replays = 0, request = null;

      const buttons = trial.choices.map((name) => {
        const button = element("button", { type: "button", disabled: true });
        button.dataset.answer = name;
        button.setAttribute("aria-pressed", "false");
        if (name in LETTERS) {
          const dot = element("span", { className: "dot" });
          dot.style.background = study.colors[name];
          button.append(dot, LETTERS[name]);
        } else button.append(words.none);
        button.addEventListener("click", () => choose(name));
        return button;
      });
      const slider = element("input", { type: "range", min: 0, max: 100, step: 1, value: 50, disabled: true, ariaLabel: words.confidence });
      const number = element("span", { textContent: words.confidence_hint });
      if (trial.choices.length) {
        const ends = element("div", { className: "study-ends" }, element("span", { textContent: `0 % ${words.confidence_low}` }),
          number, element("span", { textContent: `100 % ${words.confidence_high}` }));
        const sure = element("div", { className: "study-sure" }, element("div", { textContent: words.confidence }), slider, ends);
        display.append(element("div", { className: "study-answers" }, ...buttons), sure);
      }
      display.append(element("p", {}, again, " ", next));

      const ready = () => { next.disabled = trial.choices.length > 0 ? answer === null || confidence === null : opened === null; };
      const choose = (name) => {
        if (opened === null) return;
        answer = name;
        for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.answer === name));
        slider.disabled = false;
        slider.focus();
        ready();
      };
      const rated = () => {
        confidence = Number(slider.value);
        number.textContent = `${confidence} %`;
        ready();
      };
      slider.addEventListener("input", rated);
      slider.addEventListener("click", rated); // a touch that leaves it where it is counts, too

      const open = () => {
        opened ??= performance.now();
        question.textContent = trial.question;
        again.disabled = false;
        for (const button of buttons) button.disabled = false;
        if (!trial.choices.length) next.focus();
        ready();
      };
      const play = () => {
        const begun = performance.now() + PAUSE;
        again.disabled = true;
        cancelAnimationFrame(request);
        const frame = (now) => {
          const time = first + Math.max(0, ((now - begun) / 1000) * rate);
          draw(canvas, item, Math.min(time, stop));
          if (time < stop) request = requestAnimationFrame(frame);
          else open();
        };
        request = requestAnimationFrame(frame);
      };
      again.addEventListener("click", () => { replays += 1; play(); });

      const keys = (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const key = event.key.toLowerCase(), name = { a: "obj0", b: "obj1", c: "obj2", n: "none" }[key];
        if (key === "r" && !again.disabled) again.click();
        else if (trial.choices.includes(name)) choose(name);
        else if (key === "enter" && !next.disabled && event.target.tagName !== "BUTTON") next.click();
      };
      document.addEventListener("keydown", keys);
      next.addEventListener("click", () => {
        cancelAnimationFrame(request);
        document.removeEventListener("keydown", keys);
        const row = { answer, confidence, rt: Math.round(performance.now() - opened), replays };
        this.jsPsych.finishTrial(trial.choices.length ? row : {});
      });

      if (trial.show === "still") {
        draw(canvas, item, stop);
        open();
      } else play();
    }
  }
  const anything = { type: jsPsychModule.ParameterType.COMPLEX, default: null };
  WatchAndAnswer.info = {
    name: "watch-and-answer",
    version: "1.0.0",
    parameters: { item: anything, show: anything, choices: { ...anything, default: [] }, question: anything, progress: anything },
    data: {},
  };

  // the timeline
  const escaped = (text) => element("p", { textContent: text }).outerHTML;
  const page = (texts, button, title = null) => ({
    type: jsPsychHtmlButtonResponse,
    stimulus: `<div class="study-text">${title ? `<h1>${escaped(title).slice(3, -4)}</h1>` : ""}${texts.map(escaped).join("")}</div>`,
    choices: [button],
    button_html: (choice) => `<button class="study-next">${escaped(choice).slice(3, -4)}</button>`,
    on_load: () => document.querySelector(".study-next").focus(),
  });

  const asked = new URLSearchParams(location.search).get("participant") ?? "";
  const random = () => [...crypto.getRandomValues(new Uint8Array(10))].map((byte) => "abcdefghjkmnpqrstuvwxyz23456789"[byte % 31]).join("");
  const participant = /^[A-Za-z0-9_-]{1,40}$/.test(asked) ? asked : random();
  const leaving = (event) => event.preventDefault();
  const jsPsych = initJsPsych({ on_finish: finish });
  jsPsych.data.addProperties({ participant, study: study.study, version: study.version, seed: study.seed, task: study.task });

  function node(item, position, progress) {
    const given = []; // answers to this drawing, in order
    const questions = Array.from({ length: item.questions }, (_, place) => ({
      timeline: [{
        type: WatchAndAnswer,
        item,
        show: place ? "still" : "context",
        choices: () => [...OBJECTS.filter((name) => !given.includes(name)), "none"],
        question: item.kind === "catch" ? words.question_brought : words[`question_${place}`],
        progress,
        data: { row: "answer", trial: item.trial, kind: item.kind, place, position },
        on_finish: (data) => given.push(data.answer),
      }],
      conditional_function: () => !given.includes("none"),
    }));
    return { timeline: questions };
  }

  function feedback(item) {
    const names = item.happened.map((name) => say("feedback_object", { what: LETTERS[name] }));
    if (names.length < item.questions) names.push(names.length ? words.feedback_no_more : words.feedback_none);
    const what = names.reduce((before, name) => before + say("feedback_then", { what: name }));
    return { type: WatchAndAnswer, item, show: "future", question: say("feedback", { what }), progress: words.practice };
  }

  const practice = study.items.filter((item) => item.kind === "practice");
  const rest = jsPsych.randomization.shuffle(study.items.filter((item) => item.kind !== "practice"));
  const numbered = rest.map((item, place) => node(item, place + 1, say("progress", { n: place + 1, all: rest.length })));

  function finish() {
    removeEventListener("beforeunload", leaving);
    const csv = jsPsych.data.get().filter({ row: "answer" }).ignore(["plugin_version", "trial_type", "trial_index", "time_elapsed"]).csv();
    const box = element("div", { className: "study-text" }, element("h1", { textContent: words.end }), element("p", { textContent: say("code", { code: participant }) }));
    if (typeof window.saveAnswers === "function") {
      window.saveAnswers(csv, participant);
      box.append(element("p", { textContent: words.handed_over }));
    } else {
      const address = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
      const link = element("a", { className: "study-download", href: address, download: `answers-${study.study}-${participant}.csv`, textContent: words.download });
      box.append(element("p", {}, link), element("p", { textContent: words.saved_hint }));
    }
    document.body.replaceChildren(box);
    box.style.cssText = "max-width: 94vw; width: 560px; margin: 24px auto";
    box.querySelector("a")?.focus();
  }

  addEventListener("beforeunload", leaving);
  jsPsych.run([
    page(consent, words.agree, words.consent_title),
    page([words.intro_1, words.intro_2, words.intro_3, words.intro_4], words.continue, words.title),
    ...practice.flatMap((item) => [node(item, 0, words.practice), feedback(item)]),
    page([words.practice_over], words.start),
    ...numbered,
  ]);
})();
