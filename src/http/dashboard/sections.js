// The parts of the page: each shows what the gateway said of one thing.

/** Shows a list in its section: the rows, or that there are none, and whether there are more. */
function showList(name, rows, keyOf, build, next) {
  const section = $(`#${name}`);
  say($(".problem", section), "");
  $(".empty", section).hidden = rows.length > 0;
  $("table", section).hidden = rows.length === 0;
  update($("tbody", section), rows, keyOf, build);
  showMore($(".more", section), name, next);
}

function showMore(place, name, next) {
  place.hidden = !next;
  if (!next) return;
  if (limits[name] >= LIMIT_MAX) return place.replaceChildren(`Only the first ${NUMBER.format(LIMIT_MAX)} are shown.`);
  if (place.childElementCount > 0) return;
  const button = el("button", { type: "button" }, "Show more");
  button.addEventListener("click", () => showMoreOf(name));
  place.append(button);
}

const row = (...cells) => el("tr", { role: "row" }, ...cells);

function showTiles(health, queues) {
  const sum = (field) => (queues ?? []).reduce((total, queue) => total + queue[field], 0);
  const backlog = Object.values(health.store.queues).reduce((total, one) => total + one, 0);
  const dead = queues ? sum("dead") : null;
  const tiles = [
    { name: "Stored events", value: health.store.events },
    { name: "Held", value: health.store.held, kind: health.store.held > 0 ? "warn" : "" },
    { name: "Backlog", value: backlog },
    { name: "In hand", value: queues ? sum("inHand") : null },
    { name: "Dead", value: dead, kind: dead > 0 ? "bad" : "" },
  ];
  const tile = ({ name, value, kind }) =>
    el("div", { class: kind || undefined }, el("dt", {}, name), el("dd", {}, value === null ? "–" : NUMBER.format(value)));
  update($("#tiles"), tiles, (one) => one.name, tile);
}

// Ingresses.

function showIngresses(health) {
  const section = $("#ingresses");
  const rows = Object.entries(health.ingresses).map(([name, state]) => ({ name, state, details: health.ingressDetails[name] }));
  rows.sort((one, other) => (one.state === "disabled") - (other.state === "disabled"));
  say($(".problem", section), "");
  $(".empty", section).hidden = rows.some((one) => one.state !== "disabled");
  update($("#ingress-list"), rows, (one) => one.name, ingress);
  const waiting = health.restartRequired ?? [];
  say($("#restart-required"), waiting.length ? `Changed, and in force only after a restart: ${waiting.join(", ")}.` : "");
}

function ingress({ name, state, details }) {
  const [kind, text] = INGRESS_WORDS[state] ?? ["warn", state];
  const said = el("span", {}, el("span", { class: "name" }, INGRESS_NAMES[name] ?? name), " ", word(kind, text));
  return el("li", { class: kind }, el("span", { class: "dot", "aria-hidden": "true" }), said, ingressDetails(details));
}

function ingressDetails(details) {
  if (!details) return undefined;
  const lines = [el("div", {}, "since ", moment(details.since))];
  if (details.variable) lines.push(el("div", {}, "set ", el("code", {}, details.variable)));
  else if (details.error) lines.push(el("div", {}, details.error));
  for (const [source, one] of Object.entries(details.sources ?? {})) {
    const [, text] = INGRESS_WORDS[one.state] ?? ["", one.state];
    lines.push(el("div", {}, `${source}: ${text}${one.error ? `, ${one.error}` : ""}`));
  }
  return el("div", { class: "detail" }, ...lines);
}

// Queues.

function showQueues({ queues, next }, instances, samples) {
  const leases = new Map((instances ?? []).map((one) => [one.instance, one]));
  const series = new Map((samples?.queues ?? []).map((one) => [one.instance, one]));
  const times = samples?.times ?? [];
  const over = times.length > 1 ? span((Date.parse(times.at(-1)) - Date.parse(times[0])) / 1000) : "";
  say($("#plot-span"), over && `Plots: the last ${over}`);
  const rows = queues.map((queue) => ({
    queue,
    lease: leases.get(queue.instance) ?? null,
    series: series.get(queue.instance) ?? null,
    over,
  }));
  showList("queues", rows.map(withoutAges), (one) => one.queue.instance, queueRow, next);
}

/** Ages grow by themselves: a row is the same as long as its facts are. */
function withoutAges({ queue, lease, series, over }) {
  const { oldestAgeSeconds, ...facts } = queue;
  const kept = lease && { lastFetchAt: lease.lastFetchAt, live: lease.lease.live };
  return { queue: facts, lease: kept, series, over };
}

function queueRow({ queue, lease, series, over }) {
  const name = queue.instance;
  const backlog = plot(`Backlog of ${name}`, series?.backlog, over, (value) => NUMBER.format(value));
  const ages = plot(`Oldest event of ${name}`, series?.oldestAgeSeconds, over, span);
  const oldest = queue.oldestReceivedAt ? moment(queue.oldestReceivedAt, "age") : shown("");
  return row(
    cell("Instance", name),
    cell("Lease", leaseOf(lease, queue.backlog > 0)),
    cell("Backlog", plotted(count(queue.backlog), backlog), "number"),
    cell("Oldest", plotted(oldest, ages), "number"),
    cell("In hand", count(queue.inHand), "number"),
    cell("Waiting for retry", count(queue.waitingRetry, "warn"), "number"),
    cell("Suspects", count(queue.suspects, "warn"), "number"),
    cell("Dead", count(queue.dead, "bad"), "number"),
  );
}

const plotted = (value, drawn) => el("div", { class: "plotted" }, drawn, el("span", { class: "value" }, value));

/** A lease that ended matters when something waits. */
function leaseOf(lease, isWaitedFor) {
  if (!lease) return shown("");
  const kind = isWaitedFor ? "warn" : "";
  if (!lease.lastFetchAt) return lease.live ? [word("good", "live")] : [word(kind, "never fetched")];
  const fetched = el("span", { class: "muted" }, ", fetched ", moment(lease.lastFetchAt));
  return [lease.live ? word("good", "live") : word(kind, "ended"), fetched];
}

// Subjects.

function showSubjects({ subjects, next }) {
  const isEmpty = (one) => one.claimants.length + one.queues.length + one.dead + one.held === 0;
  const facts = subjects.filter((one) => !isEmpty(one)).map((one) => ({
    ...one,
    queues: one.queues.map(({ oldestAgeSeconds, ...queue }) => queue),
  }));
  showList("subjects", facts, (one) => one.subject, subjectRow, next);
}

function subjectRow(one) {
  const link = el("a", { href: `#subject-${one.subject}`, "data-focus": one.subject }, one.workItem ?? one.subject);
  const unassigned = one.subject === "unassigned" ? el("span", { class: "sub" }, "all that is held, and what has no work item") : undefined;
  const name = one.workItem ? [link, el("span", { class: "sub mono" }, one.subject)] : [link, unassigned];
  return row(
    cell("Work item", one.unattended ? [...name, word("bad", "unattended: no claimant has fetched for an hour")] : name),
    cell("Claimed by", one.claimants.length ? one.claimants.map(claimant) : shown("", "nobody")),
    cell("Backlog", one.queues.length ? one.queues.map(backlogOf) : shown("")),
    cell("Held", count(one.held, "warn"), "number"),
    cell("Dead", count(one.dead, "bad"), "number"),
  );
}

const claimant = (one) =>
  el("div", {}, one.instance, el("span", { class: "muted" }, ` ${one.role}, since `, moment(one.claimedAt)));

const backlogOf = (queue) =>
  el("div", {}, `${NUMBER.format(queue.depth)} `, el("span", { class: "muted" }, `at ${queue.instance}, oldest `, moment(queue.oldestReceivedAt, "age")));

// Events.

function showEvents({ events, next }) {
  showList("events", events, (one) => one.id, eventRow, next);
}

function eventRow(event) {
  return row(
    cell("Event", eventLink(event, event.id)),
    cell("Kind", event.kind),
    cell("Work item", event.workItem ?? event.subject),
    cell("By", shown(event.actor)),
    cell("Came", `${event.provider}, ${event.source}`),
    cell("State", word(EVENT_KINDS[event.state], event.state)),
    cell("Arrived", moment(event.receivedAt)),
  );
}
