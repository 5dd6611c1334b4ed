"use strict";
// One study of people: the page holds the stimuli (#study), the words (#words) and the consent text (#consent).
(() => {
  const OBJECTS = ["obj0", "obj1", "obj2"], LETTERS = { obj0: "A", obj1: "B", obj2: "C" };
  const part = (name) => JSON.parse(document.getElementById(name).textContent);
  const study = part("study"), words = part("words"), consent = part("consent");
  const say = (name, values = {}) => words[name].replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);
  const PAUSE = 500; // ms before a drawing moves
  const challenge = study.challenge ?? null; // a game on a public page: it tells what happened, and keeps nothing

  const picture = (label, { width, height }) => {
    const scale = study.scene === "arena" ? 720 / width : 40;
    const canvas = element("canvas", { className: `study-${study.scene}`, width: scale * width, height: scale * height, ariaLabel: label });
    canvas.setAttribute("role", "img");
    return canvas;
  };

  for (const item of study.items) item.stages.forEach(unpack);
  const named = (text) => words[`thing_${text}`];

  // what the tasks differ in: what is drawn, from which step to which, and what is said beside it
  const arena = {
    last: (item) => item.steps - 1,
    span: (item, place) => [place ? item.context - 1 : 0, item.context - 1], // after the first answer it stands still
    show(item) {
      const canvas = picture(words.canvas, item.stages[0]), starts = study.cuts ? [0, ...study.cuts] : [];
      const visits = starts.map((from, place) => ({ from, to: (starts[place + 1] ?? item.context) - 1, button: element("button", { type: "button", textContent: place + 1 }) }));
      const draw = (time) => {
        drawStage(canvas, item.stages[0], Math.min(time, item.steps - 1), study.cuts);
        for (const { from, to, button } of visits) button.setAttribute("aria-current", String(time >= from && time < to + 1));
      };
      const row = visits.length ? [element("p", { className: "study-visits" }, words.visits, ...visits.map(({ button }) => button))] : [];
      return { nodes: [canvas, ...row], draw, tell() {}, visits };
    },
    feedback(item) {
      const names = item.happened.map((name) => say("feedback_object", { what: LETTERS[name] }));
      if (names.length < item.questions) names.push(names.length ? words.feedback_no_more : words.feedback_none);
      const what = names.reduce((before, name) => before + say("feedback_then", { what: name }));
      return { span: [item.context - 1, arena.last(item)], faster: study.cuts ? 1 : 4, question: say("feedback", { what }) };
    },
    question: (item, place) => (item.kind === "catch" ? words.question_catch : words[`question_${place}`]),
    progress: (item, n, all) => (n ? say("progress", { n, all }) : words.practice),
    choices: (given) => [...OBJECTS.filter((name) => !given.includes(name)), ...(study.cuts ? [] : ["none"])],
  };
  const houses = {
    last: (item) => item.stops.at(-1),
    span: (item, place) => [place ? item.stops[place - 1] : 0, item.stops[place]],
    show(item) {
      const parts = [0, 1].map((agent) => {
        const canvas = picture(say("canvas", { agent: "AB"[agent] }), item.stages[agent]), lines = element("p", { className: "study-lines" });
        return { canvas, lines, node: element("div", {}, canvas, lines) };
      });
      const names = item.stages[0].shapes.filter(({ short }) => short).map(({ short, text }) => `${short} ${named(text)}`).join(", ");
      let note = null;
      const draw = (time) => {
        for (const [agent, { canvas, lines }] of parts.entries()) {
          const shapes = drawStage(canvas, item.stages[agent], Math.min(time, item.stops.at(-1)), [], named), held = shapes.filter(({ short, hidden }) => short && hidden);
          const texts = [say("holds", { agent: "AB"[agent], what: held.map(({ text }) => named(text)).join(", ") || words.nothing })];
          if (note?.hear) texts.push(say("hear", { what: words[`sound_${note.hear[agent]}`] }));
          if (note?.say) texts.push(say("says", { what: sentence(note.say[agent]) }));
          lines.replaceChildren(...texts.map((text) => element("span", { textContent: text })));
        }
      };
      return { nodes: [element("div", { className: "study-pair" }, ...parts.map((part) => part.node)), element("p", { className: "study-names", textContent: names })], draw, tell(place) { note = place === null ? null : item.notes[place]; } };
    },
    feedback: (item) => ({ span: [item.stops.at(-1), item.stops.at(-1)], faster: 1, question: say("feedback", { what: "AB"[item.truth] }) }),
    question: (item) => words[`question_${item.scenario}`],
    progress: (item, n, all, place) => say(n ? "stop" : "practice_stop", { n, all, stop: place + 1, stops: item.questions }),
    choices: () => [],
  };
  const scene = { arena, houses }[study.scene], rating = study.scene === "houses";
  function sentence(parts) {
    if (!parts.length) return words.said_done;
    const [action, thing, piece, room] = parts, furniture = words[`thing_${piece}`];
    const place = room ? say("place", { furniture, room: words[`room_${room}`] }) : furniture;
    return say(`said_${action}`, { object: words[`thing_${thing}`], place });
  }

  // one question to one drawing: play, answer, say how sure; or move the slider between two
  class WatchAndAnswer {
    constructor(jsPsych) {
      this.jsPsych = jsPsych;
    }

    trial(display, trial) {
      const item = trial.item, [first, stop] = trial.span, rate = (study.speed * (trial.faster ?? 1)) / study.step_seconds;
      const shown = scene.show(item), asks = trial.place !== null;
      const question = element("p", { className: "study-question", textContent: words.watch });
      question.setAttribute("aria-live", "polite");
      const again = element("button", { className: "study-again", type: "button", textContent: words.again, disabled: true });
      const next = element("button", { className: "study-next", type: "button", textContent: words.continue, disabled: true });
      display.replaceChildren(element("p", { className: "study-progress" }, element("span", { textContent: trial.progress }), ...soFar()), ...(rating ? [question, ...shown.nodes] : [...shown.nodes, question]));
      const replay = [again, ...(shown.visits ?? []).map(({ button }) => button)];
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
      const value = rating && trial.before !== null ? trial.before : 50, low = rating ? words.rating_low : words.confidence_low;
      const high = rating ? words.rating_high : words.confidence_high, about = rating ? words.rating : words.confidence;
      const slider = element("input", { type: "range", min: 0, max: 100, step: 1, value, disabled: true, ariaLabel: `${about} ${low} - ${high}` });
      const number = element("span", { textContent: words.confidence_hint }), unit = rating ? "" : " %";
      const controls = element("div", { className: "study-controls" });
      if (asks) {
        const ends = element("div", { className: "study-ends" }, element("span", { textContent: `0${unit} ${low}` }),
          number, element("span", { textContent: `100${unit} ${high}` }));
        const sure = element("div", { className: "study-sure" }, element("div", { textContent: about }), slider, ends);
        if (!rating) controls.append(element("div", { className: "study-answers" }, ...buttons));
        controls.append(sure);
      }
      const same = element("button", { className: "study-again", type: "button", textContent: words.no_change, disabled: true });
      controls.append(element("p", {}, again, " ", ...(rating && trial.before !== null ? [same, " "] : []), next));
      same.addEventListener("click", () => {
        slider.value = trial.before;
        rated();
        next.click();
      });
      display.append(controls);

      const ready = () => { next.disabled = opened === null || (asks && (confidence === null || (answer === null && !rating))); };
      const choose = (name) => {
        if (opened === null) return;
        answer = name;
        for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.answer === name));
        slider.disabled = false;
        slider.focus();
        ready();
      };
      const rated = () => {
        if (slider.disabled) return;
        confidence = Number(slider.value);
        number.textContent = `${confidence}${unit}`;
        ready();
      };
      slider.addEventListener("input", rated);
      slider.addEventListener("pointerup", rated); // a touch that leaves it where it is counts, too
      slider.addEventListener("keyup", (event) => { if (/^(Arrow|Page|Home|End)/.test(event.key)) rated(); });

      const open = () => {
        opened ??= performance.now();
        question.textContent = trial.question;
        for (const button of replay) button.disabled = false;
        same.disabled = false;
        for (const button of buttons) button.disabled = false;
        shown.tell(trial.place);
        shown.draw(stop);
        if (!asks) next.focus();
        else if (rating) {
          slider.disabled = false;
          slider.focus({ preventScroll: true }); // the houses stay in view
        }
        ready();
      };
      const play = (from = first, to = stop) => {
        const begun = performance.now() + PAUSE;
        for (const button of [...replay, same]) button.disabled = true;
        shown.tell(null);
        cancelAnimationFrame(request);
        const frame = (now) => {
          const time = from + Math.max(0, ((now - begun) / 1000) * rate);
          shown.draw(Math.min(time, to));
          if (time < to) request = requestAnimationFrame(frame);
          else open();
        };
        request = requestAnimationFrame(frame);
      };
      again.addEventListener("click", () => { replays += 1; play(); });
      for (const { from, to, button } of shown.visits ?? []) button.addEventListener("click", () => { replays += 1; play(from, to); });

      const keys = (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        const key = event.key.toLowerCase(), name = { a: "obj0", b: "obj1", c: "obj2", n: "none" }[key];
        if (key === "r" && !again.disabled) again.click();
        else if (trial.choices.includes(name)) choose(name);
        else if (key === "n" && same.isConnected) same.click();
        else if (rating && asks && opened !== null && /^[ab1-9]$/.test(key)) {
          slider.value = key === "a" ? 0 : key === "b" ? 100 : 10 * Number(key);
          rated();
        }
        else if (key === "enter" && !next.disabled && event.target.tagName !== "BUTTON") next.click();
      };
      document.addEventListener("keydown", keys);
      next.addEventListener("click", () => {
        cancelAnimationFrame(request);
        document.removeEventListener("keydown", keys);
        const row = { ...(rating ? { answer: confidence } : { answer, confidence }), rt: Math.round(performance.now() - opened), replays };
        this.jsPsych.finishTrial(asks ? row : {});
      });

      if (first === stop) open();
      else play();
    }
  }
  const anything = { type: jsPsychModule.ParameterType.COMPLEX, default: null };
  WatchAndAnswer.info = {
    name: "watch-and-answer",
    version: "1.0.0",
    parameters: {
      item: anything, place: anything, span: anything, faster: anything, choices: { ...anything, default: [] }, question: anything,
      progress: anything, before: anything,
    },
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

  // who answers: a record each, kept in this browser under the study and the run until it is deleted there
  const random = () => [...crypto.getRandomValues(new Uint8Array(10))].map((byte) => "abcdefghjkmnpqrstuvwxyz23456789"[byte % 31]).join("");
  const PREFIX = `aawm study ${study.study} `, CODE = /^[A-Za-z0-9_-]{1,40}$/;
  const asked = [...new URLSearchParams(location.search)].find(([name]) => name.toLowerCase() === "participant")?.[1] ?? null;
  const COLUMNS = [
    "row", "participant", "run", "study", "version", "seed", "task", "trial", "kind", "place", "position", "answer",
    ...(rating ? [] : ["confidence"]), "rt", "replays", "started", "ended", "screen", "blurs", "reloads", "comment",
  ];
  const tryStorage = (act, otherwise) => {
    try {
      return act();
    } catch {
      return otherwise; // a browser without storage
    }
  };
  let person = null, hand = null;
  const status = element("span", { className: "study-state" });
  status.setAttribute("role", "status");

  function shelved() { // everybody whose answers this browser keeps, the newest first
    const keys = tryStorage(() => Object.keys(localStorage).filter((key) => key.startsWith(PREFIX)), []);
    const records = keys.map((key) => tryStorage(() => JSON.parse(localStorage.getItem(key)), null)); // one that is damaged stops nobody
    return records.filter((one) => Array.isArray(one?.rows) && Array.isArray(one.order)).sort((one, other) => (one.started < other.started ? 1 : -1));
  }

  function show() {
    const state = hand.state;
    status.className = `study-state study-${state}`;
    status.textContent = state === "kept" ? "" : say(state === "not_saved" && !person.finished ? "not_yet" : state, { why: hand.why });
    for (const button of document.querySelectorAll(".study-try")) button.hidden = state !== "not_saved";
  }

  function follow(record) { // from here on every change of this record is kept and handed over
    person = record;
    const taken = () => screenOf(line(words.elsewhere), line(pressed(words.go_on, () => location.reload())));
    hand = new HandOver({ shelf: PREFIX + person.run, record: person, table, say, show, taken });
    tryStorage(() => sessionStorage.setItem(PREFIX, person.run));
    hand.keep();
    hand.send();
  }

  const given = (item) => person.rows.filter((row) => row.trial === item.trial).map((row) => row.answer);
  const done = (item) => given(item).length === item.questions || given(item).includes("none");
  const timeLeft = () => {
    const asks = (item) => item.questions, sum = (items) => items.map(asks).reduce((before, more) => before + more, 0);
    return say("left", { n: Math.ceil((study.minutes * sum(study.items.filter((item) => !done(item)))) / sum(study.items)) });
  };
  const table = () => {
    const { participant, run, started, ended, screen, blurs, reloads, comment } = person;
    const same = { participant, run, study: study.study, version: study.version, seed: study.seed, task: study.task };
    const about = { row: "person", started, ended, screen, blurs, reloads, comment: comment.replace(/(^|[;\t\r\n])(\s*)(?=[=+@＝＋－＠-])/g, "$1$2'") }; // no formula
    const lines = [...person.rows.map((row) => ({ row: "answer", ...row })), about].map((row) => COLUMNS.map((name) => ({ ...same, ...row })[name] ?? ""));
    return [COLUMNS, ...lines].map((line) => line.map((value) => `"${String(value).replaceAll('"', '""')}"`).join(",")).join("\r\n") + "\r\n";
  };
  addEventListener("blur", () => { if (person) person.blurs += 1; });

  function download(text, className) {
    const link = element("a", { className, href: "#", download: `answers-${study.study}-${person.participant}.csv`, textContent: text });
    link.addEventListener("click", () => {
      link.href = URL.createObjectURL(new Blob([table()], { type: "text/csv" }));
      hand.has("filed");
    });
    return link;
  }
  const soFar = () => (hand && person.rows.length ? [" ", download(words.so_far, "study-so-far"), " ", status] : []);

  function node(item, position, all) {
    const before = given(item); // answers to this drawing, in order
    const questions = Array.from({ length: item.questions }, (_, place) => ({
      timeline: [{
        type: WatchAndAnswer,
        item,
        place,
        span: scene.span(item, place),
        choices: () => scene.choices(before),
        question: scene.question(item, place),
        progress: () => `${scene.progress(item, position, all, place)}, ${timeLeft()}`,
        before: () => before.at(-1) ?? null,
        on_finish({ answer, confidence, rt, replays }) {
          before.push(answer);
          person.ended = new Date().toISOString();
          person.rows.push({ trial: item.trial, kind: item.kind, place, position, answer, confidence, rt, replays });
          hand?.change();
        },
      }],
      conditional_function: () => !before.includes("none"),
    }));
    return { timeline: questions.slice(before.length) };
  }

  const feedback = (item) => ({ type: WatchAndAnswer, item, ...scene.feedback(item), progress: challenge ? "" : words.practice });
  const screenOf = (...parts) => {
    const box = element("div", { className: "study-text study-alone" }, ...parts);
    document.body.replaceChildren(box);
    box.querySelector("button, a")?.focus();
  };
  const line = (...parts) => element("p", {}, ...parts);
  const pressed = (text, act) => {
    const button = element("button", { type: "button", className: "study-next", textContent: text });
    button.addEventListener("click", act);
    return button;
  };

  function result() {
    const right = person.rows.filter(({ trial, answer }) => study.items.find((item) => item.trial === trial).happened[0] === answer);
    const rows = [[challenge.you, right.length], ...challenge.others].map(([name, count]) => line(`${name}: ${count} / ${study.items.length}`));
    screenOf(element("h1", { textContent: challenge.end }), ...rows, line(challenge.rule), pressed(challenge.again, () => location.reload()));
  }

  function finish() {
    if (challenge) return result();
    person.finished = true;
    const again = pressed(words.try_again, () => hand.send()), link = download(words.download, "study-download");
    again.classList.add("study-try");
    const comment = element("textarea", { id: "comment", rows: 3, value: person.comment });
    let pause = null;
    comment.addEventListener("input", () => { // what is typed is kept at each letter, and handed over at each pause
      person.comment = comment.value;
      person.revision += 1;
      hand.keep();
      clearTimeout(pause);
      pause = setTimeout(() => hand.send(), PAUSE);
    });
    screenOf(
      element("h1", { textContent: words.end }), line(say("code", { code: person.participant })), line(status), line(link, " ", again),
      line(HandOver.hosted ? words.second_way : words.saved_hint), element("label", { htmlFor: "comment", textContent: words.comment }), comment, ...leave(),
    );
    hand.keep();
    hand.send();
    link.focus();
  }

  function begin() {
    const named = new Map(study.items.map((item) => [item.trial, item]));
    const practice = study.items.filter((item) => item.kind === "practice" && !done(item));
    const rest = person.order.map((trial, place) => [named.get(trial), place + 1]).filter(([item]) => !done(item));
    const timeline = [
      ...(person.rows.length ? [] : [page(challenge?.intro ?? [words.intro_1, words.intro_2, words.intro_3, words.intro_4], words.continue, challenge?.title ?? words.title)]),
      ...practice.flatMap((item) => [node(item, 0, person.order.length), feedback(item)]),
      ...(rest.length === person.order.length && !challenge ? [page([words.practice_over], words.start)] : []),
      ...rest.flatMap(([item, position]) => [node(item, position, person.order.length), ...(challenge ? [feedback(item)] : [])]),
    ];
    document.body.replaceChildren();
    if (timeline.length) jsPsych.run(timeline);
    else finish();
  }

  const jsPsych = initJsPsych({ on_finish: finish });
  const somebody = (participant) => ({ // who begins
    participant, run: random(), rows: [], revision: 0, handed: 0, filed: 0, blurs: 0, reloads: 0, comment: "", finished: false,
    order: jsPsych.randomization.shuffle(study.items.filter((item) => item.kind !== "practice").map((item) => item.trial)),
    started: new Date().toISOString(), screen: `${innerWidth}x${innerHeight}`,
  });

  // the doors: a code that is refused or another's is asked for, whoever is kept here may go on, and all others agree first
  function ask(refused) {
    const input = element("input", { id: "code", maxLength: 40, autocomplete: "off" });
    const go = pressed(words.continue, () => (CODE.test(input.value.trim()) ? enter(input.value.trim()) : input.focus()));
    const none = pressed(words.no_code, () => welcome(random()));
    none.className = "study-again";
    screenOf(
      ...(refused === null ? [] : [line(say("code_refused", { code: refused.slice(0, 60) }))]),
      line(element("label", { htmlFor: "code", textContent: words.ask_code }), " ", input), line(go, " ", none),
    );
    input.focus();
  }

  function welcome(participant) {
    const agree = pressed(words.agree, () => {
      follow(somebody(participant));
      begin();
    });
    const refuse = pressed(words.disagree, () => screenOf(line(words.disagreed)));
    screenOf(element("h1", { textContent: words.consent_title }), ...consent.map((text) => line(text)), line(agree, " ", refuse));
    refuse.className = "study-again";
  }

  function leave() { // for whoever comes next to the same computer
    const other = pressed(words.somebody_else, () => {
      tryStorage(() => sessionStorage.removeItem(PREFIX));
      if (asked === null) welcome(random());
      else ask(null);
    });
    const forget = pressed(words.forget, () => {
      if (!confirm(words.forget_sure)) return;
      hand.stopped = true;
      tryStorage(() => localStorage.removeItem(hand.shelf));
      screenOf(line(words.forgotten));
    });
    other.className = forget.className = "study-again";
    return [line(other, " ", ...(hand ? [forget] : []))];
  }

  function back(people) {
    const entries = people.map(({ run, participant, rows, started }) => {
      const go = pressed(words.go_on, () => {
        const record = shelved().find((one) => one.run === run); // as the last tab left it
        record.reloads += 1;
        follow(record);
        begin();
      });
      return line(say("kept", { n: rows.length, code: participant, when: new Date(started).toLocaleString(words.language) }), " ", go);
    });
    screenOf(element("h1", { textContent: words.back }), ...entries, ...leave());
  }

  function enter(code) { // `null`: the link names nobody
    const tab = tryStorage(() => sessionStorage.getItem(PREFIX), null), kept = shelved().filter((one) => one.rows.length);
    const mine = kept.filter(({ run, participant }) => (code === null ? run === tab : participant === code));
    const open = kept.filter((one) => !one.finished || (HandOver.hosted ? one.handed : Math.max(one.handed, one.filed)) < one.revision);
    if (mine.length) back(mine.slice(0, 1));
    else if (code === null && open.length) back(open);
    else welcome(code ?? random());
  }

  addEventListener("pageshow", ({ persisted }) => { if (persisted) location.reload(); }); // what is kept may be newer than such a page
  if (challenge) {
    person = somebody("");
    begin();
  } else if (asked !== null && !CODE.test(asked)) ask(asked);
  else enter(asked);
})();
