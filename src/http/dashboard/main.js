// Asks again and again while somebody looks, and shows what is said.

const EVERY_MS = 5_000;
const SAMPLES_EVERY_MS = 30_000;
const LIMIT_MAX = 1_000;

/** Rows that are asked for. */
const limits = { queues: 100, subjects: 50, dead: 50, events: 25 };
/** The subject that the events are narrowed to. */
let subject = null;
/** What was said last of the things that others are shown with. */
const last = { instances: null, samples: null, queues: null };
let answeredAt = null;
let samplesAskedAt = -Infinity;
let isAsking = false;

function showMoreOf(list) {
  limits[list] = Math.min(LIMIT_MAX, limits[list] * 4);
  return refresh();
}

function questions() {
  const filter = subject === null ? "" : `&subject=${encodeURIComponent(subject)}`;
  const asked = {
    health: get("/health"),
    queues: get(`/queues?limit=${limits.queues}`),
    instances: get(`/instances?limit=${limits.queues}`),
    subjects: get(`/subjects?limit=${limits.subjects}`),
    dead: get(`/dead?limit=${limits.dead}`),
    events: get(`/events?limit=${limits.events}${filter}`),
  };
  if (performance.now() - samplesAskedAt >= SAMPLES_EVERY_MS) asked.samples = get("/samples");
  return asked;
}

async function askAll() {
  const asked = questions();
  const names = Object.keys(asked);
  const settled = await Promise.allSettled(Object.values(asked));
  return Object.fromEntries(names.map((name, index) => [name, settled[index]]));
}

/** One round: nothing is shown as new that was not said. */
async function refresh() {
  if (isAsking) return;
  isAsking = true;
  try {
    const [said] = await Promise.all([askAll(), refreshStory()]);
    const health = said.health;
    if (health.status === "rejected") return showOutage(health.reason);
    answeredAt = now();
    showOutage(null);
    showAll(said, health.value);
  } finally {
    isAsking = false;
  }
}

function showAll(said, health) {
  const value = (name) => (said[name]?.status === "fulfilled" ? said[name].value : null);
  last.instances = value("instances")?.instances ?? last.instances;
  last.queues = value("queues")?.queues ?? last.queues;
  if (value("samples")) [last.samples, samplesAskedAt] = [value("samples"), performance.now()];
  showOverall(health);
  showTiles(health, last.queues);
  showIngresses(health);
  showOr("queues", said.queues, (list) => showQueues(list, last.instances, last.samples));
  showOr("subjects", said.subjects, showSubjects);
  showOr("dead", said.dead, showDead);
  showOr("events", said.events, showEvents);
  ageMoments();
}

/** Shows a part, or why it cannot be shown; what was shown before stays. */
function showOr(name, said, show) {
  if (said.status === "fulfilled") return show(said.value);
  return say($(".problem", $(`#${name}`)), `Not up to date. ${said.reason.message}`);
}

/** What somebody has to see to, the worst first: each with its kind and in words. */
function troubles(health) {
  const dead = (last.queues ?? []).reduce((total, queue) => total + queue.dead, 0);
  const found = [];
  if (!health.store.ok) found.push(["bad", "the store refuses writes"]);
  if (!health.eventLog.ok) found.push(["bad", "the event log is not written"]);
  for (const [name, state] of Object.entries(health.ingresses)) {
    const [kind, text] = INGRESS_WORDS[state] ?? ["warn", state];
    if (kind === "bad" || kind === "warn") found.push([kind, `${INGRESS_NAMES[name] ?? name}: ${text}`]);
  }
  if (Object.values(health.ingresses).every((state) => state === "disabled")) found.push(["warn", "no ingress is enabled"]);
  if (dead > 0) found.push(["warn", counted(dead, "dead letter")]);
  return found.sort(([one], [other]) => (one === "bad" ? 0 : 1) - (other === "bad" ? 0 : 1));
}

function showOverall(health) {
  const found = troubles(health);
  const kind = found.length === 0 ? "good" : found[0][0];
  $("#overall").className = `overall ${kind}`;
  const lead = kind === "bad" ? "Needs you: " : "Look at: ";
  say($("#overall-text"), found.length === 0 ? "All is well" : lead + found.map(([, text]) => text).join("; "));
  say($("#version"), health.version);
}

function showOutage(error) {
  const outage = $("#outage");
  $("#content").classList.toggle("stale", error !== null);
  if (error === null) return say(outage, "");
  const since = answeredAt === null ? "Nothing is known yet." : "What is below is what it said last.";
  say(outage, `${error.message} ${since} It is asked again every ${EVERY_MS / 1000} seconds.`);
  $("#overall").className = "overall bad";
  return say($("#overall-text"), "No answer");
}

function tick() {
  ageMoments();
  if (answeredAt !== null) say($("#updated"), `Updated ${span(Math.max(1, (now() - answeredAt) / 1000))} ago`);
}

// Where one is: #event-12 opens a story, #subject-loop-… narrows the events.

function placeAsked() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
}

function go() {
  const place = placeAsked();
  const event = /^event-([0-9]{1,18})$/.exec(place);
  const named = /^subject-(.{1,512})$/.exec(place);
  if (event) return openStory(event[1]);
  closeStory();
  if (named) return narrow(named[1]);
  return undefined;
}

function narrow(name) {
  subject = name;
  const filter = $("#filter");
  filter.replaceChildren(`Only events of ${name}. `, el("button", { type: "button" }, "Show all"));
  filter.hidden = false;
  $("button", filter).addEventListener("click", widen);
  $("#events").scrollIntoView({ block: "start" });
  return refresh();
}

function widen() {
  subject = null;
  $("#filter").hidden = true;
  $("#find-text").value = "";
  $("#find-text").focus();
  history.replaceState(null, "", "#events");
  return refresh();
}

function find(submitted) {
  submitted.preventDefault();
  const text = $("#find-text").value.trim();
  if (text !== "") location.hash = /^[0-9]{1,18}$/.test(text) ? `event-${text}` : `subject-${text}`;
}

function begin() {
  watchDialog();
  $("#find").addEventListener("submit", find);
  $("#exact-times").addEventListener("change", ageMoments);
  addEventListener("hashchange", go);
  document.addEventListener("visibilitychange", () => document.hidden || refresh());
  setInterval(() => document.hidden || refresh(), EVERY_MS);
  setInterval(tick, 1_000);
  refresh().then(() => go());
}

begin();
