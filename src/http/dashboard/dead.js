// Dead letters, and sending them out again.

function showDead({ dead, next }) {
  $("#redrive-all").hidden = dead.length < 2;
  showList("dead", dead, (one) => one.seq, deadRow, next);
}

function deadRow(one) {
  const button = el("button", { type: "button", "data-focus": "redrive", "aria-label": `Redrive delivery ${one.seq}` }, "Redrive …");
  button.addEventListener("click", () => confirmRedrive({ seqs: [one.seq] }, `delivery ${one.seq}`));
  const event = one.event;
  return row(
    cell("Delivery", String(one.seq)),
    cell("Event", [eventLink(event, `${event.id} ${event.kind}`), el("span", { class: "sub" }, about(event))]),
    cell("Instance", one.instance),
    cell("Strikes", NUMBER.format(one.strikes), "number"),
    cell("Last outcome", [shown(one.lastOutcome, "said nothing"), one.detail ? el("span", { class: "sub" }, one.detail) : undefined]),
    cell("Died", moment(one.deadAt)),
    cell("Action", button),
  );
}

/** What the open dialog is about. */
let redriving = null;

/** Says first what it would do, then asks. */
async function confirmRedrive(selection, name) {
  const dialog = $("#confirm");
  redriving = { selection, name };
  say($(".problem", dialog), "");
  say($("#confirm-title"), `Redrive ${name}?`);
  say($("#confirm-text"), "Asking what it would do …");
  $("#confirm-yes").disabled = true;
  dialog.showModal();
  try {
    const would = await post("/operator/redrive?dryRun=true", selection);
    say($("#confirm-text"), intention(would));
    $("#confirm-yes").disabled = would.appended === 0;
    if (would.appended > 0) $("#confirm-yes").focus();
  } catch (error) {
    say($("#confirm-text"), "");
    say($(".problem", dialog), error.message);
  }
}

const receivers = (done) => [...new Set(done.deliveries.map((one) => one.instance))].sort().join(", ");

function intention(would) {
  if (would.appended === 0) return "It would send nothing: nobody consumes it today, or it was replaced already.";
  const more = would.more ? " There are more; ask again for those afterwards." : "";
  return `It would put ${counted(would.appended, "new delivery", "new deliveries")} on the queue of ${receivers(would)}, as a first attempt. The dead ones stay as they are.${more}`;
}

async function redrive() {
  const { selection, name } = redriving;
  $("#confirm-yes").disabled = true;
  try {
    const done = await post("/operator/redrive", selection);
    $("#confirm").close();
    sayRedriven(name, done);
    await refresh();
  } catch (error) {
    say($(".problem", $("#confirm")), error.message);
    $("#confirm-yes").disabled = false;
  }
}

function sayRedriven(name, done) {
  const note = $("#redriven");
  note.classList.toggle("good", done.appended > 0);
  const sent = `Redriven ${name}: ${counted(done.appended, "delivery", "deliveries")} on the queue of ${receivers(done)}.`;
  say(note, done.appended > 0 ? sent : `Nothing was sent of ${name}: somebody was quicker.`);
}

function watchDialog() {
  $("#confirm-no").addEventListener("click", () => $("#confirm").close());
  $("#confirm-yes").addEventListener("click", redrive);
  $("#redrive-all").addEventListener("click", () => confirmRedrive({ all: true }, "all dead letters"));
  // The row that opened it may be gone: then the section is where one was.
  $("#confirm").addEventListener("close", () => {
    if (document.activeElement === document.body) $("#dead-title").focus();
  });
}
