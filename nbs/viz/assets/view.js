"use strict";
// A row for each question of each trial; a click plays it. `rows`: task, trial, scenario, truth, then for each model what it says, of how
// many objects it is wrong, its loss; then the name of the replay. Replays are packed (JSON, deflate, base64) until they are played.
(() => {
  const { names, rows, replays } = JSON.parse(document.getElementById("view").textContent), place = document.querySelector(".player");
  const says = (row, model) => row[4 + 3 * model], wrong = (row, model) => row[5 + 3 * model], loss = (row, model) => row[6 + 3 * model];
  const apart = (row) => (names.length < 2 ? wrong(row, 0) : Math.abs(wrong(row, 0) - wrong(row, 1))) + (says(row, 0) !== says(row, 1) && names.length > 1 ? 0.5 : 0);
  const further = (row) => (names.length < 2 ? loss(row, 0) : Math.abs(loss(row, 0) - loss(row, 1)));
  const orders = names.length > 1 ? { disagreement: (one, other) => apart(other) - apart(one) || further(other) - further(one) } : {};
  names.forEach((name, model) => { orders[`loss of ${name}`] = (one, other) => wrong(other, model) - wrong(one, model) || loss(other, model) - loss(one, model); });
  orders.trial = (one, other) => one[1] - other[1];
  const choice = (label, options) => {
    const select = element("select", {}, ...options.map((value) => element("option", { value, textContent: value })));
    document.getElementById("filters").append(element("label", {}, `${label} `, select));
    select.onchange = () => list();
    return select;
  };
  const every = (column) => ["all", ...new Set(rows.map((row) => row[column]))];
  const question = choice("question", every(0)), scenario = choice("scenario", every(2)), order = choice("sorted by", Object.keys(orders));
  const shown = choice("rows", ["all", ...names.map((name) => `wrong: ${name}`)]);
  let close = () => {};

  async function play(row, line) {
    for (const other of document.querySelectorAll("tbody tr")) other.setAttribute("aria-current", String(other === line));
    close();
    const bytes = Uint8Array.from(atob(replays[row.at(-1)]), (letter) => letter.charCodeAt(0));
    const replay = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).json();
    document.getElementById("chosen").textContent = `${replay.title}; asked: ${row[0]}, truth: ${row[3]}${replay.stages.length > names.length ? "" : "; not kept: what is missing here is rolled out where aawm view is given the models, too"}`;
    close = playIn(place, replay);
    document.getElementById("chosen").scrollIntoView({ block: "nearest" });
  }
  function list() {
    const model = shown.selectedIndex - 1;
    const chosen = rows.filter((row) => (question.value === "all" || row[0] === question.value) && (scenario.value === "all" || row[2] === scenario.value) && (model < 0 || wrong(row, model)));
    chosen.sort(orders[order.value]);
    const head = ["question", "trial", "scenario", "truth", ...names.flatMap((name) => [name, "wrong", "loss"])];
    const lines = chosen.map((row) => {
      const cells = row.slice(0, -1).map((value, column) => element("td", { textContent: column > 4 && column % 3 === 0 ? value.toFixed(2) : value }));
      for (const number of names.keys()) if (wrong(row, number)) cells[4 + 3 * number].className = "wrong";
      const line = element("tr", {}, ...cells);
      if (row.at(-1) in replays) {
        line.className = "plays";
        line.tabIndex = 0;
        line.onclick = () => play(row, line);
        line.onkeydown = (event) => {
          const next = { ArrowDown: line.nextElementSibling, ArrowUp: line.previousElementSibling }[event.key];
          if (event.key === "Enter") line.click();
          if (next?.onclick) { event.preventDefault(); next.focus(); next.click(); }
        };
      }
      return line;
    });
    document.getElementById("rows").replaceChildren(element("table", {}, element("thead", {}, element("tr", {}, ...head.map((textContent) => element("th", { textContent })))), element("tbody", {}, ...lines)));
    const right = (number) => `${names[number]} ${chosen.filter((row) => !wrong(row, number)).length}`;
    document.getElementById("summary").textContent = `${chosen.length} questions of ${new Set(chosen.map((row) => row[1])).size} trials. Right on all objects: ${names.map((_, number) => right(number)).join(", ")}. An answer names the objects, of A to C, to which it happens; wrong counts mistakes (all, where a rollout failed), loss (0 to 1) is how far scores are from the truth. ${Object.keys(replays).length ? "Click a row to play it." : "Rows play where the page is made with --trials."}`;
  }
  if (rows.length) list();
  else for (const name of ["summary", "filters", "rows"]) document.getElementById(name).remove();
})();
