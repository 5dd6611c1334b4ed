"use strict";
// What studies of people and pages of `aawm play --save x.html` share.
const OBJECTS = ["obj0", "obj1", "obj2"], LETTERS = { obj0: "A", obj1: "B", obj2: "C" };
const element = (kind, values = {}, ...inside) => {
  const made = Object.assign(document.createElement(kind), values);
  made.append(...inside);
  return made;
};
const unfold = (track) => { let sum = 0; return track.map((change) => (sum += change)); }; // a first value and differences

// the room from above
function drawRoom(canvas, study, item, time) {
  const pen = canvas.getContext("2d"), scale = canvas.width / study.side;
  const last = item.tracks.obj0[0].length - 1, step = Math.min(Math.floor(time), last), share = study.cuts?.includes(step + 1) ? 0 : Math.min(time, last) - step; // nothing moves through a cut
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
