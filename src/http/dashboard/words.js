// Numbers, spans and moments in words.

const NUMBER = new Intl.NumberFormat("en");
const MOMENT = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium" });

/** The gateway's clock minus this browser's, in milliseconds. */
let clockSkew = 0;

const now = () => Date.now() + clockSkew;

/** A span in seconds, with its unit. */
function span(seconds) {
  if (seconds < 0.95) return `${Math.max(0, Math.round(seconds * 1000))} ms`;
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  if (seconds < 99.5 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 48 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${NUMBER.format(Math.round(seconds / 86400))} d`;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let [value, unit] = [bytes, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

const counted = (number, one, many = `${one}s`) => `${NUMBER.format(number)} ${number === 1 ? one : many}`;

const exactTimes = () => $("#exact-times").checked;

function momentText(at, form) {
  const milliseconds = Date.parse(at);
  if (exactTimes()) return MOMENT.format(milliseconds);
  const seconds = (now() - milliseconds) / 1000;
  if (form === "age") return span(seconds);
  if (form === "until") return seconds < 0 ? `in ${span(-seconds)}` : "now";
  return seconds < 1 ? "just now" : `${span(seconds)} ago`;
}

/** A moment, as far away as it is; the exact one on demand. `form`: ago, age or until. */
function moment(at, form = "ago") {
  const element = el("time", { datetime: at, "data-form": form, title: MOMENT.format(Date.parse(at)) });
  element.textContent = momentText(at, form);
  return element;
}

/** Lets the moments grow older. */
function ageMoments() {
  for (const element of document.querySelectorAll("time[data-form]")) {
    const text = momentText(element.getAttribute("datetime"), element.dataset.form);
    if (element.textContent !== text) element.textContent = text;
  }
}

/** The word of a state, with the kind that its colour and shape follow. */
const INGRESS_WORDS = {
  "up": ["good", "up"],
  "connecting": ["warn", "connecting"],
  "backing-off": ["warn", "backing off"],
  "missing-secret": ["bad", "secret not set"],
  "failed": ["bad", "failed"],
  "disabled": ["off", "off"],
};

const INGRESS_NAMES = {
  "github-webhook": "GitHub webhook",
  "github-poll": "GitHub poll",
  "jira-webhook": "Jira webhook",
  "jira-poll": "Jira poll",
  "slack-http": "Slack over HTTP",
  "slack-socket": "Slack socket",
};

const EVENT_KINDS = { held: "warn", grace: "warn", routed: "", expired: "bad" };
const DELIVERY_KINDS = { ready: "", handed: "", settled: "good", dead: "bad", expired: "bad" };

function word(kind, text) {
  return el("span", { class: kind ? `word ${kind}` : "word" }, text);
}

/** How an event is named: by its work item, else by where it belongs. */
const about = (event) => event.workItem ?? event.subject;

const eventLink = (event, text) =>
  el("a", { href: `#event-${event.id}`, "data-focus": `event-${event.id}` }, text);
