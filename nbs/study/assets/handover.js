"use strict";
// Answers on their way: each change of a record is kept in this browser at once, and given to the host until the host confirms.
// A record counts its changes (`revision`); `handed` and `filed` are the last change that the host, or a file, is known to have.
class HandOver {
  static PATIENCE = 20_000; // ms that a host may take before it counts as one that hangs
  static PAUSE = 15_000; // ms before a failed call is made again

  constructor({ shelf, record, table, say, show, taken }) {
    Object.assign(this, { shelf, record, table, say, show, busy: false, again: false, why: null, stopped: false });
    for (const moment of ["online", "pagehide"]) addEventListener(moment, () => this.send());
    addEventListener("storage", ({ key }) => { // another tab goes on with this record: this one writes over nothing
      if (key !== shelf || this.stopped) return;
      this.stopped = true;
      taken();
    });
    addEventListener("beforeunload", (event) => {
      if (this.stopped || Math.max(record.handed, record.filed) >= record.revision) return;
      event.preventDefault();
      event.returnValue = true; // browsers before 2024
    });
  }

  static get hosted() { return typeof window.saveAnswers === "function"; }
  get handed() { return this.record.handed >= this.record.revision; }
  get state() {
    if (this.handed) return "saved";
    if (this.record.filed >= this.record.revision) return "file_saved";
    return !HandOver.hosted ? "kept" : this.why === null ? "saving" : "not_saved";
  }

  keep() {
    if (this.stopped) return;
    try {
      localStorage.setItem(this.shelf, JSON.stringify(this.record));
    } catch { /* no storage, or a full one: the host, the file and the question on leaving are left */ }
    this.show();
  }

  change() {
    this.record.revision += 1;
    this.keep();
    this.send();
  }

  has(where, revision = this.record.revision) { // "handed" or "filed": everything up to this change is there
    this.again ||= where === "handed" && revision < this.record.handed; // an older table came through last, over a newer one
    this.record[where] = Math.max(this.record[where], revision);
    this.why = null;
    this.keep();
    if (this.again) this.send();
  }

  async send() {
    if (!HandOver.hosted || this.busy || this.stopped || (this.handed && !this.again)) return;
    clearTimeout(this.timer);
    this.busy = true;
    this.again = false;
    this.show();
    const { revision, participant } = this.record, csv = this.table();
    const call = Promise.resolve().then(() => window.saveAnswers(csv, participant)).then((reply) => this.confirm(reply)).then(() => this.has("handed", revision));
    const hangs = new Promise((_, refuse) => setTimeout(() => refuse(this.say("no_reply", { n: HandOver.PATIENCE / 1000 })), HandOver.PATIENCE));
    // a call that hangs may still come through, and `has` hears of it; if it fails late, nothing more is said
    const failed = await Promise.race([call, hangs]).then(() => null, (fault) => String(fault?.message ?? fault));
    if (failed !== null) this.why = navigator.onLine ? failed : this.say("offline");
    this.busy = false;
    this.show();
    if (!this.handed || this.again) this.timer = setTimeout(() => this.send(), failed === null ? 0 : HandOver.PAUSE);
  }

  // a host confirms by `true`, or by an `ok` or `success` that is true; a reply of the web by its status, where its text says nothing else
  async confirm(reply) {
    const web = reply instanceof Response;
    let said = reply;
    if (web) {
      const text = (await reply.text()).trim();
      // a page is somebody's login, or a program's warning
      if (!reply.ok || reply.redirected || text.startsWith("<")) throw new Error(`${reply.status} ${text.slice(0, 80)}`.trim());
      try {
        said = JSON.parse(text);
      } catch {
        return; // no JSON: the status alone counts
      }
    }
    const words = [said, said?.ok, said?.success, web || null].filter((word) => typeof word === "boolean");
    if (words.length && words.every(Boolean) && !said?.error && !/^(error|fail|[45]\d\d$)/i.test(said?.status)) return;
    throw new Error(said === undefined ? this.say("no_word") : JSON.stringify(said).slice(0, 80));
  }
}
